//! Numbers and addresses as text.
//!
//! Each request writes a few of them, and `std::fmt` costs about ten times as many instructions for each.

use std::io::Write;
use std::net::IpAddr;

/// Appends a number in decimal.
pub(crate) fn put_number(out: &mut Vec<u8>, number: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends an address as its `Display` writes it.
pub(crate) fn put_ip(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => {
            let [first, rest @ ..] = address.octets();
            put_number(out, first);
            for octet in rest {
                out.push(b'.');
                put_number(out, octet);
            }
        }
        // Writing to a vector cannot fail.
        IpAddr::V6(address) => drop(write!(out, "{address}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_of_display() {
        for number in [0, 7, 200, 65_535, u64::MAX] {
            let mut out = b"x".to_vec();
            put_number(&mut out, number);
            assert_eq!(out, format!("x{number}").into_bytes());
        }
        for address in ["0.0.0.0", "127.0.0.1", "255.100.10.1", "::1", "::ffff:10.0.0.1"] {
            let (mut out, address) = (Vec::new(), address.parse::<IpAddr>().unwrap());
            put_ip(&mut out, address);
            assert_eq!(out, address.to_string().into_bytes());
        }
    }
}
