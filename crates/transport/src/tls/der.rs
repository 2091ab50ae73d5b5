//! The little of DER that is read here: elements and times (X.690, RFC 5280).

use std::time::SystemTime;

/// Tags of DER.
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;
pub(super) const BITS: u8 = 0x03;
pub(super) const OBJECT: u8 = 0x06;
pub(super) const UTF8: u8 = 0x0c;
pub(super) const PRINTABLE: u8 = 0x13;
pub(super) const IA5: u8 = 0x16;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The first element: its tag, its contents, and what follows.
pub(super) fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], rest) = bytes.split_first_chunk()?;
    let (len, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81 => rest.split_first().map(|(len, rest)| (usize::from(*len), rest))?,
        0x82 => rest.split_first_chunk().map(|(len, rest)| (usize::from(u16::from_be_bytes(*len)), rest))?,
        // A long list.
        0x83 => {
            let (&[high, middle, low], rest) = rest.split_first_chunk()?;
            (u32::from_be_bytes([0, high, middle, low]) as usize, rest)
        }
        _ => return None,
    };
    let (contents, rest) = rest.split_at_checked(len)?;
    Some((tag, contents, rest))
}

/// The time that comes first, in seconds of UTC as certificates have it (RFC 5280, section 4.1.2.5), and what follows.
/// Times before 1970 are none.
pub(super) fn time(bytes: &[u8]) -> Option<(SystemTime, &[u8])> {
    let (tag, text, rest) = element(bytes)?;
    let text = std::str::from_utf8(text).ok()?;
    let (century, digits) = match tag {
        UTC_TIME if text.len() == 13 => (if text >= "50" { "19" } else { "20" }, text),
        GENERALIZED_TIME if text.len() == 15 => text.split_at_checked(2)?,
        _ => return None,
    };
    let digits = digits.strip_suffix('Z').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    let at = |begin: usize| &digits[begin..begin + 2];
    let text = format!("{century}{}-{}-{}T{}:{}:{}Z", at(0), at(2), at(4), at(6), at(8), at(10));
    Some((humantime::parse_rfc3339(&text).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn elements_have_lengths_of_up_to_three_bytes() {
        for (header, len) in [
            (&[SEQUENCE, 0x7f][..], 0x7f),
            (&[SEQUENCE, 0x81, 0xff], 0xff),
            (&[SEQUENCE, 0x82, 1, 2], 0x102),
            (&[SEQUENCE, 0x83, 1, 2, 3], 0x1_0203),
        ] {
            let contents = vec![7; len];
            let all = [header, &contents, b"rest"].concat();
            assert_eq!(element(&all), Some((SEQUENCE, &contents[..], &b"rest"[..])));
            assert_eq!(element(&all[..header.len() + len - 1]), None);
            assert_eq!(element(&all[..header.len() - 1]), None);
        }
        assert_eq!(element(&[SEQUENCE, 0x84, 0, 0, 0, 1, 7]), None);
    }

    #[test]
    fn times_are_read_to_the_second_or_not_at_all() {
        let read = |tag: u8, text: &str| {
            time(&[&[tag, text.len() as u8], text.as_bytes(), b"rest"].concat()).map(|(at, rest)| {
                assert_eq!(rest, b"rest");
                at.duration_since(UNIX_EPOCH).unwrap()
            })
        };
        for (tag, text, seconds) in [
            (UTC_TIME, "700101000000Z", 0),
            (UTC_TIME, "261122200644Z", 1_795_378_004),
            (UTC_TIME, "491231235959Z", 2_524_607_999),
            (GENERALIZED_TIME, "20500101000000Z", 2_524_608_000),
            (GENERALIZED_TIME, "20240229120000Z", 1_709_208_000),
        ] {
            assert_eq!(read(tag, text), Some(Duration::from_secs(seconds)), "{text}");
        }
        for (tag, text) in [
            (UTC_TIME, "500101000000Z"),
            (UTC_TIME, "261122200644"),
            (UTC_TIME, "2611222006440"),
            (UTC_TIME, "26112220064Z"),
            (UTC_TIME, "261322200644Z"),
            (UTC_TIME, "26+122200644Z"),
            (UTC_TIME, "26112\u{e9}200644"),
            (GENERALIZED_TIME, "261122200644Z"),
            (GENERALIZED_TIME, "20230229120000Z"),
            (GENERALIZED_TIME, "2\u{e9}261122200644"),
            (UTF8, "261122200644Z"),
        ] {
            assert_eq!(read(tag, text), None, "{text}");
        }
    }
}
