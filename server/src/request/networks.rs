//! Networks of IP addresses, as `--trusted-proxies` names them.

use std::net::IpAddr;
use std::str::FromStr;

/// The form of a list, for errors.
pub(crate) const RULE: &str =
    "must be IP addresses or networks, separated by commas, such as 127.0.0.1,10.0.0.0/8, or none";

/// A list of networks. The text `none` is the empty list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Networks(Vec<Network>);

impl Networks {
    /// Returns whether the list has no network.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether one of the networks has the address.
    ///
    /// An IPv4 address that an IPv6 socket reports (`::ffff:10.0.0.1`) counts as IPv4.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(address))
    }
}

/// The text is no list of networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Invalid;

impl FromStr for Networks {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        if text == "none" {
            return Ok(Networks::default());
        }
        let parts = text.split(',').map(str::trim);
        parts.map(Network::parse).collect::<Option<_>>().map(Networks).ok_or(Invalid)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    /// The number of leading bits that all its addresses share.
    prefix: u32,
}

impl Network {
    fn parse(text: &str) -> Option<Network> {
        let (address, prefix) = text.split_once('/').map_or((text, None), |(a, p)| (a, Some(p)));
        let address: IpAddr = address.parse().ok()?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            // `parse` would accept a sign.
            Some(p) if p.bytes().all(|b| b.is_ascii_digit()) => p.parse().ok()?,
            Some(_) => return None,
            None => bits,
        };
        (prefix <= bits).then_some(Network { address, prefix })
    }

    fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                (a.to_bits() ^ b.to_bits()).leading_zeros() >= self.prefix
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => {
                (a.to_bits() ^ b.to_bits()).leading_zeros() >= self.prefix
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_the_addresses_that_share_its_prefix() {
        let networks: Networks = "127.0.0.1, 10.0.0.0/8,fd00::/8,::1".parse().unwrap();
        for inside in ["127.0.0.1", "10.255.0.1", "fdab::1", "::1", "::ffff:10.1.1.1"] {
            assert!(networks.contains(inside.parse().unwrap()), "{inside}");
        }
        for outside in ["127.0.0.2", "11.0.0.1", "fc00::1", "::2", "::ffff:11.0.0.1"] {
            assert!(!networks.contains(outside.parse().unwrap()), "{outside}");
        }
        let all: Networks = "0.0.0.0/0".parse().unwrap();
        assert!(all.contains("203.0.113.9".parse().unwrap()));
        assert!(!all.contains("::1".parse().unwrap()));
        let none: Networks = "none".parse().unwrap();
        assert!(none.is_empty() && !none.contains("127.0.0.1".parse().unwrap()));
    }

    #[test]
    fn other_texts_are_refused() {
        for bad in [
            "",
            "none,10.0.0.1",
            "None",
            "localhost",
            "10.0.0.0/33",
            "10.0.0/8",
            "::/129",
            "10.0.0.0/+8",
            "1.2.3.4,",
        ] {
            assert_eq!(bad.parse::<Networks>(), Err(Invalid), "{bad}");
        }
    }
}
