//! Traffic secrets, and the keys that come of them (RFC 8446, section 7).

use std::fmt;

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, HKDF_SHA384, KeyType, Prk};
use serde::{Deserialize, Serialize};

use super::{HEADER, TAG};

/// Records that one key seals before it is replaced: below the limit for AES-GCM of RFC 8446, section 5.5, which is
/// 2^24.5.
const RECORDS_PER_KEY: u64 = 1 << 24;

/// A cipher of TLS 1.3.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Cipher {
    /// TLS_AES_128_GCM_SHA256.
    Aes128Gcm,
    /// TLS_AES_256_GCM_SHA384.
    Aes256Gcm,
    /// TLS_CHACHA20_POLY1305_SHA256.
    ChaCha20Poly1305,
}

/// What is needed to go on with one direction of a connection whose handshake is over.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret {
    /// The negotiated cipher.
    pub cipher: Cipher,
    /// The application traffic secret: 32 bytes, or 48 with SHA-384.
    pub secret: Vec<u8>,
    /// The number of records that its key has sealed, or opened.
    pub records: u64,
}

/// Both directions.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Secrets {
    /// For what this end sends.
    pub sealing: Secret,
    /// For what it receives.
    pub opening: Secret,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("cipher", &self.cipher).field("records", &self.records).finish_non_exhaustive()
    }
}

/// A secret or key that does not fit its cipher, or bytes that the key does not open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Refused;

impl From<aws_lc_rs::error::Unspecified> for Refused {
    fn from(_: aws_lc_rs::error::Unspecified) -> Self {
        Self
    }
}

/// One direction's key.
pub(crate) struct Key {
    secret: Secret,
    key: LessSafeKey,
    iv: [u8; NONCE],
}

const NONCE: usize = 12;

/// A length for HKDF-Expand-Label.
struct Len(usize);

impl KeyType for Len {
    fn len(&self) -> usize {
        self.0
    }
}

impl Cipher {
    /// Bytes of the hash, and so of a secret.
    fn hash_len(self) -> usize {
        match self {
            Self::Aes128Gcm | Self::ChaCha20Poly1305 => 32,
            Self::Aes256Gcm => 48,
        }
    }

    /// HKDF-Expand-Label(secret, label, "", len).
    fn expand(self, secret: &[u8], label: &str, len: usize) -> Result<Vec<u8>, Refused> {
        let hash = match self {
            Self::Aes128Gcm | Self::ChaCha20Poly1305 => HKDF_SHA256,
            Self::Aes256Gcm => HKDF_SHA384,
        };
        let prefix = [(len >> 8) as u8, len as u8, (label.len() + 6) as u8];
        let info: [&[u8]; 4] = [&prefix, b"tls13 ", label.as_bytes(), &[0]];
        let mut out = vec![0; len];
        Prk::new_less_safe(hash, secret).expand(&info, Len(len))?.fill(&mut out)?;
        Ok(out)
    }
}

impl Key {
    /// The key that a secret gives.
    ///
    /// # Errors
    /// [`Refused`] where the secret has not the length of its cipher's hash.
    pub(crate) fn new(secret: Secret) -> Result<Self, Refused> {
        if secret.secret.len() != secret.cipher.hash_len() {
            return Err(Refused);
        }
        let algorithm = match secret.cipher {
            Cipher::Aes128Gcm => &AES_128_GCM,
            Cipher::Aes256Gcm => &AES_256_GCM,
            Cipher::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        };
        let bytes = secret.cipher.expand(&secret.secret, "key", algorithm.key_len())?;
        let iv = secret.cipher.expand(&secret.secret, "iv", NONCE)?;
        let key = LessSafeKey::new(UnboundKey::new(algorithm, &bytes)?);
        Ok(Self { secret, key, iv: iv.try_into().map_err(|_| Refused)? })
    }

    /// Replaces the key by the next one (section 7.2).
    pub(crate) fn update(&mut self) -> Result<(), Refused> {
        let Secret { cipher, secret, .. } = &self.secret;
        let secret = cipher.expand(secret, "traffic upd", cipher.hash_len())?;
        *self = Self::new(Secret { cipher: *cipher, secret, records: 0 })?;
        Ok(())
    }

    /// Whether it has to be replaced before more than `records` more records are sealed.
    pub(crate) fn is_worn(&self, records: u64) -> bool {
        self.secret.records + records >= RECORDS_PER_KEY
    }

    /// What another process needs to go on with it.
    pub(crate) fn secret(&self) -> &Secret {
        &self.secret
    }

    /// The number of the next record.
    pub(crate) fn number(&self) -> u64 {
        self.secret.records
    }

    /// So many records were sealed or opened.
    pub(crate) fn passed(&mut self, records: u64) {
        self.secret.records += records;
    }

    /// The nonce of a record (section 5.3).
    fn nonce(&self, number: u64) -> Nonce {
        let mut nonce = self.iv;
        for (byte, number) in nonce[NONCE - 8..].iter_mut().zip(number.to_be_bytes()) {
            *byte ^= number;
        }
        Nonce::assume_unique_for_key(nonce)
    }

    /// Seals `contents`, with their type, as the record of this number, into `out`: as many bytes, and then
    /// `contents_type` and the tag. No number may be used twice.
    pub(crate) fn seal(
        &self,
        number: u64,
        header: &[u8; HEADER],
        contents: &[u8],
        contents_type: u8,
        out: &mut [u8],
    ) -> Result<(), Refused> {
        let (sealed, rest) = out.split_at_mut_checked(contents.len()).ok_or(Refused)?;
        let (nonce, header) = (self.nonce(number), Aad::from(header));
        Ok(self.key.seal_out_of_place_scatter(nonce, header, contents, sealed, &[contents_type], rest)?)
    }

    /// Opens `sealed`, the record of this number, which ends with the tag, into `out`: its contents, and their type.
    pub(crate) fn open(
        &self,
        number: u64,
        header: &[u8; HEADER],
        sealed: &[u8],
        out: &mut [u8],
    ) -> Result<(), Refused> {
        let (sealed, tag) = sealed.split_last_chunk::<TAG>().ok_or(Refused)?;
        let (nonce, header) = (self.nonce(number), Aad::from(header));
        Ok(self.key.open_separate_gather(nonce, header, sealed, tag, out)?)
    }

    /// As [`Key::open`], in place; the length of the contents with their type.
    pub(crate) fn open_in_place(
        &self,
        number: u64,
        header: &[u8; HEADER],
        sealed: &mut [u8],
    ) -> Result<usize, Refused> {
        let (nonce, header) = (self.nonce(number), Aad::from(header));
        Ok(self.key.open_in_place(nonce, header, sealed)?.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter(|digit| !digit.is_ascii_whitespace()).collect();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(byte).collect()
    }

    /// The server's application traffic key of RFC 8448, section 3, and its first record of application data.
    #[test]
    fn keys_and_records_are_those_of_the_rfc() {
        let secret = bytes("a11af9f05531f856ad47116b45a950328204b4f44bfb6b3a4b4f1f3fcb631643");
        let secret = Secret { cipher: Cipher::Aes128Gcm, secret, records: 0 };
        assert_eq!(secret.cipher.expand(&secret.secret, "key", 16).unwrap(), bytes("9f02283b6c9c07efc26bb9f2ac92e356"));
        let key = Key::new(secret).unwrap();
        assert_eq!(key.iv.to_vec(), bytes("cf782b88dd83549aadf1e984"));
    }

    #[test]
    fn what_is_sealed_is_opened_by_the_same_key_alone() {
        for (cipher, len) in [(Cipher::Aes128Gcm, 32), (Cipher::Aes256Gcm, 48), (Cipher::ChaCha20Poly1305, 32)] {
            let secret = Secret { cipher, secret: vec![7; len], records: 3 };
            let (mut sealing, mut opening) = (Key::new(secret.clone()).unwrap(), Key::new(secret.clone()).unwrap());
            for number in 3..6 {
                let mut sealed = vec![0; 100 + 1 + TAG];
                let header = super::super::header(sealed.len());
                sealing.seal(number, &header, &[5; 100], 23, &mut sealed).unwrap();
                let mut out = vec![0; 101];
                opening.open(number, &header, &sealed, &mut out).unwrap();
                assert_eq!((&out[..100], out[100]), (&[5; 100][..], 23));
            }
            sealing.update().unwrap();
            let mut sealed = vec![0; 1 + TAG];
            let header = super::super::header(sealed.len());
            sealing.seal(0, &header, &[], 23, &mut sealed).unwrap();
            assert_eq!(opening.open_in_place(0, &header, &mut sealed.clone()), Err(Refused));
            opening.update().unwrap();
            assert_eq!(opening.open_in_place(0, &header, &mut sealed), Ok(1));
            assert_eq!(Key::new(Secret { secret: vec![7; len - 1], ..secret }).err(), Some(Refused));
        }
    }
}
