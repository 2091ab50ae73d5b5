//! Which of the servers that are found on the local network may be used.

use std::net::IpAddr;
use std::str::FromStr;

/// A reason to use a server that announces itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trust {
    /// Its address is in this network: the address of the network, and how many bits of it count.
    Network(IpAddr, u8),
    /// It announces this name, or its machine has it.
    Name(String),
}

impl Trust {
    /// Whether this is a reason to connect to `address` of a server that announces these names.
    pub fn covers(&self, address: IpAddr, names: [&str; 2]) -> bool {
        match self {
            Self::Network(network, bits) => match (network, address.to_canonical()) {
                (IpAddr::V4(network), IpAddr::V4(address)) => {
                    let differing = u32::from(*network) ^ u32::from(address);
                    differing.leading_zeros() >= u32::from(*bits)
                }
                (IpAddr::V6(network), IpAddr::V6(address)) => {
                    let differing = u128::from(*network) ^ u128::from(address);
                    differing.leading_zeros() >= u32::from(*bits)
                }
                _ => false,
            },
            Self::Name(name) => names.iter().any(|announced| announced.eq_ignore_ascii_case(name)),
        }
    }
}

impl FromStr for Trust {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is neither a network such as 192.168.7.0/24 nor a server's name");
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        match (address.parse::<IpAddr>(), bits) {
            (Ok(address), bits) => {
                let most = if address.is_ipv4() { 32 } else { 128 };
                let bits = bits.map_or(Ok(most), str::parse).map_err(|_| wrong())?;
                if bits <= most { Ok(Self::Network(address, bits)) } else { Err(wrong()) }
            }
            (Err(_), None) if !text.is_empty() => Ok(Self::Name(text.to_owned())),
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_and_names() {
        let covers = |trust: &str, address: &str| {
            trust.parse::<Trust>().unwrap().covers(address.parse().unwrap(), ["gpu lab", "node7"])
        };
        assert!(covers("10.1.0.0/16", "10.1.255.1") && !covers("10.1.0.0/16", "10.2.0.1"));
        assert!(covers("10.1.0.7", "10.1.0.7") && !covers("10.1.0.7", "10.1.0.8"));
        assert!(covers("0.0.0.0/0", "8.8.8.8") && !covers("0.0.0.0/0", "fd00::1"));
        assert!(covers("10.1.0.0/16", "::ffff:10.1.0.1"), "the same address");
        assert!(covers("fd00::/8", "fd12::1") && !covers("fd00::/8", "fe80::1"));
        assert!(covers("GPU lab", "8.8.8.8") && covers("node7", "8.8.8.8") && !covers("node", "8.8.8.8"));
        for wrong in ["", "10.0.0.0/33", "10.0.0.0/", "10.0.0/8", "fd00::/129"] {
            assert!(wrong.parse::<Trust>().is_err(), "{wrong}");
        }
    }
}
