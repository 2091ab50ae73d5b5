//! Any serde type out of random bytes: a deserializer of a format in which every byte string means something.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, DeserializeSeed, EnumAccess, IntoDeserializer, SeqAccess, VariantAccess, Visitor};

/// Random bytes, used from the front. When they have run out, everything is 0, empty or the first of its kind, so
/// that values end.
#[derive(Clone, Debug)]
pub struct Entropy<'de> {
    bytes: &'de [u8],
}

/// The type asks for what this format does not have.
#[derive(Debug)]
pub struct GenerateError(String);

impl fmt::Display for GenerateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for GenerateError {}

impl de::Error for GenerateError {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Self(text.to_string())
    }
}

/// A `T` made of `bytes`.
///
/// # Errors
/// Only for types that no random value exists for (maps, untyped data).
pub fn value<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<T, GenerateError> {
    Entropy::new(bytes).value()
}

impl<'de> Entropy<'de> {
    /// All of `bytes`.
    pub fn new(bytes: &'de [u8]) -> Self {
        Self { bytes }
    }

    /// Whether all is used up.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        self.slice(1).first().copied().unwrap_or(0)
    }

    /// The next `len` bytes, or as many as are left.
    pub fn slice(&mut self, len: usize) -> &'de [u8] {
        let (head, rest) = self.bytes.split_at(len.min(self.bytes.len()));
        self.bytes = rest;
        head
    }

    /// A number: mostly small, so that ids meet; sometimes any; sometimes one where arithmetic goes wrong.
    pub fn number(&mut self) -> u64 {
        let pick = self.byte();
        match pick {
            0..200 => u64::from(pick % 8),
            200..235 => u64::from(self.byte()) << 8 | u64::from(self.byte()),
            235..248 => self.slice(8).iter().fold(0, |n, b| n << 8 | u64::from(*b)),
            248..252 => u64::MAX - u64::from(pick - 248),
            252 => 1 << 60,
            253 => 1 << 63,
            254 => u64::from(u32::MAX),
            255 => 1 << 31,
        }
    }

    /// The length of a list: mostly a few, seldom many.
    fn count(&mut self) -> usize {
        match self.byte() {
            pick @ 0..250 => usize::from(pick % 4),
            pick => usize::from(pick - 249) * 40,
        }
    }

    /// A `T` of the next bytes.
    ///
    /// # Errors
    /// As [`value`].
    pub fn value<T: Deserialize<'de>>(&mut self) -> Result<T, GenerateError> {
        T::deserialize(self)
    }

    fn text(&mut self) -> &'de str {
        let len = usize::from(self.byte() % 16);
        let bytes = self.slice(len);
        match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
        }
    }
}

macro_rules! numbers {
    ($($deserialize:ident $visit:ident $type:ty),* $(,)?) => {$(
        fn $deserialize<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, GenerateError> {
            let number = self.number();
            visitor.$visit(number as $type)
        }
    )*};
}

impl<'de> de::Deserializer<'de> for &mut Entropy<'de> {
    type Error = GenerateError;

    numbers! {
        deserialize_u8 visit_u8 u8, deserialize_u16 visit_u16 u16, deserialize_u32 visit_u32 u32,
        deserialize_u64 visit_u64 u64, deserialize_i8 visit_i8 i8, deserialize_i16 visit_i16 i16,
        deserialize_i32 visit_i32 i32, deserialize_i64 visit_i64 i64,
        deserialize_f32 visit_f32 f32, deserialize_f64 visit_f64 f64,
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, GenerateError> {
        Err(de::Error::custom("a value of no particular type cannot be made"))
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, GenerateError> {
        visitor.visit_bool(self.byte() % 2 == 1)
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, GenerateError> {
        visitor.visit_char(char::from(self.byte()))
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, GenerateError> {
        visitor.visit_borrowed_str(self.text())
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, GenerateError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, GenerateError> {
        let len = self.count();
        visitor.visit_borrowed_bytes(self.slice(len))
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, GenerateError> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, GenerateError> {
        if self.byte() % 2 == 1 { visitor.visit_some(self) } else { visitor.visit_none() }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, GenerateError> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, GenerateError> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, GenerateError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, GenerateError> {
        let left = self.count();
        visitor.visit_seq(Elements { entropy: self, left, fixed: false })
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, GenerateError> {
        visitor.visit_seq(Elements { entropy: self, left: len, fixed: true })
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, GenerateError> {
        self.deserialize_tuple(len, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, _: V) -> Result<V::Value, GenerateError> {
        Err(de::Error::custom("the protocol has no maps"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, GenerateError> {
        self.deserialize_tuple(fields.len(), visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, GenerateError> {
        let variant = u32::from(self.byte()) % u32::try_from(variants.len().max(1)).unwrap_or(1);
        visitor.visit_enum(Variant { entropy: self, variant })
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, _: V) -> Result<V::Value, GenerateError> {
        Err(de::Error::custom("fields have no names on the wire"))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, GenerateError> {
        self.deserialize_any(visitor)
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

struct Elements<'a, 'de> {
    entropy: &'a mut Entropy<'de>,
    left: usize,
    /// A tuple, which has all its elements whether or not there are bytes left to make them of.
    fixed: bool,
}

impl<'de> SeqAccess<'de> for Elements<'_, 'de> {
    type Error = GenerateError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, GenerateError> {
        if self.left == 0 || (self.entropy.is_empty() && !self.fixed) {
            return Ok(None);
        }
        self.left -= 1;
        seed.deserialize(&mut *self.entropy).map(Some)
    }
}

struct Variant<'a, 'de> {
    entropy: &'a mut Entropy<'de>,
    variant: u32,
}

impl<'de> EnumAccess<'de> for Variant<'_, 'de> {
    type Error = GenerateError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), GenerateError> {
        let name = seed.deserialize(IntoDeserializer::<GenerateError>::into_deserializer(self.variant))?;
        Ok((name, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_, 'de> {
    type Error = GenerateError;

    fn unit_variant(self) -> Result<(), GenerateError> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, GenerateError> {
        seed.deserialize(self.entropy)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, GenerateError> {
        de::Deserializer::deserialize_tuple(self.entropy, len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, GenerateError> {
        de::Deserializer::deserialize_tuple(self.entropy, fields.len(), visitor)
    }
}
