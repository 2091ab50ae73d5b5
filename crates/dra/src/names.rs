//! How the cluster names a broker's devices: `rack7-4f3a9c01b2-0`, and shares of them: `rack7-4f3a9c01b2-0-1of4`. These are
//! names of the DNS.
//!
//! The digits in the middle are of the server's key, by which a device is found: a server may change its name, and two
//! servers may have the same one.

use ropeway_lease::messages::PoolServer;

/// Most bytes of a server's name in a device's.
const MAX_SERVER: usize = 32;

/// How many digits of a server's key.
const DIGITS: usize = 10;

/// Most shares of a device.
pub const MAX_SHARES: u16 = 100;

/// What a name of the cluster's means.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// The server.
    pub server: &'a PoolServer,
    /// Its device's number.
    pub number: usize,
    /// One of how many shares of the device it is: 1 for all of it.
    pub shares: u16,
}

/// The cluster's name for a device of this server.
pub fn device(server: &str, key: &str, number: usize) -> String {
    let letters = server.to_ascii_lowercase();
    let words = letters.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let mut name = words.collect::<Vec<_>>().join("-");
    name.truncate(MAX_SERVER);
    let name = match name.trim_end_matches('-') {
        "" => "server",
        name => name,
    };
    format!("{name}-{}-{number}", digits(key))
}

/// The cluster's names for the shares of a device with this name.
pub fn shares(device: &str, shares: u16) -> Vec<String> {
    match shares {
        1 => vec![device.to_owned()],
        shares => (1..=shares).map(|share| format!("{device}-{share}of{shares}")).collect(),
    }
}

/// What this name means.
pub fn find<'a>(name: &str, servers: &'a [PoolServer]) -> Option<Found<'a>> {
    let (device, last) = name.rsplit_once('-')?;
    let (rest, number, shares) = match last.split_once("of") {
        Some((_, shares)) => {
            let (rest, number) = device.rsplit_once('-')?;
            (rest, number, shares.parse().ok().filter(|shares| (1..=MAX_SHARES).contains(shares))?)
        }
        None => (device, last, 1),
    };
    let (_, key) = rest.rsplit_once('-')?;
    let number = number.parse().ok()?;
    let server = servers.iter().find(|server| digits(&server.key) == key)?;
    (number < server.devices.len()).then_some(Found { server, number, shares })
}

fn digits(key: &str) -> String {
    let mut hash = blake3::hash(key.as_bytes()).to_hex().to_string();
    hash.truncate(DIGITS);
    hash
}

/// Whether a text is a name of the DNS (RFC 1123, subdomain), as the names of drivers are.
pub fn is_domain(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        let ends = [bytes.first(), bytes.last()];
        ends.iter().all(|end| end.is_some_and(|byte| is_letter(*byte)))
            && bytes.len() <= 63
            && bytes.iter().all(|byte| is_letter(*byte) || *byte == b'-')
    };
    text.len() <= 63 && text.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use ropeway_lease::messages::PoolDevice;
    use ropeway_lease::property::Properties;

    use super::*;

    #[test]
    fn devices_are_found_by_their_names() {
        let server = |name: &str, key: &str| {
            let device = || PoolDevice { properties: Properties::new(), others: 0 };
            PoolServer { name: name.into(), key: key.into(), online: true, devices: vec![device(), device()] }
        };
        let servers = [server("Rack 7.example", "k1"), server("Rack 7.example", "k2"), server("\u{e9}", "k3")];
        for (at, server) in servers.iter().enumerate() {
            for number in 0..2 {
                let name = device(&server.name, &server.key, number);
                assert!(is_domain(&name) && !name.contains('.'), "{name}");
                let found = find(&name, &servers).unwrap();
                assert_eq!((&found.server.key, found.number, found.shares), (&servers[at].key, number, 1));
                for share in shares(&name, 4) {
                    let found = find(&share, &servers).unwrap();
                    assert_eq!((&found.server.key, found.number, found.shares), (&servers[at].key, number, 4));
                }
                // It has another name now.
                assert!(find(&device("else", &server.key, number), &servers).is_some());
            }
            assert!(find(&device(&server.name, &server.key, 2), &servers).is_none(), "it has two");
        }
        assert!(device("Rack 7.example", "k1", 0).starts_with("rack-7-example-"));
        assert!(device("\u{e9}", "k3", 12).starts_with("server-"));
        let longest = device(&"x-".repeat(99), "k1", usize::MAX >> 32);
        assert_eq!(longest.len(), 31 + 1 + DIGITS + 1 + 10);
        assert!(is_domain(&shares(&longest, MAX_SHARES)[99]));
        assert_eq!(shares("d", 1), ["d"]);
        assert_eq!(shares("d", 2), ["d-1of2", "d-2of2"]);
        let known = device("a", "k1", 0);
        for name in ["", "gpu", "gpu-0", "rack-7-example-0000000000-0", "a-b-c", "of", "-of"] {
            assert!(find(name, &servers).is_none(), "{name}");
        }
        for shares in ["1of", "1of0", "1of101", "of-4"] {
            assert!(find(&format!("{known}-{shares}"), &servers).is_none(), "{shares}");
        }
    }

    #[test]
    fn names_of_drivers_are_checked() {
        assert!(is_domain("ropeway.io") && is_domain("a.b-c.d0") && is_domain("ropeway"));
        for name in ["", "Ropeway.io", ".io", "ropeway..io", "-a", "a-", "a_b", &"a".repeat(64)] {
            assert!(!is_domain(name), "{name}");
        }
    }
}
