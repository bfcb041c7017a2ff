//! The notices by which one side of a connection tells the other of its addresses. Each is a stream of its own: a first
//! byte that no chunk begins with, then a CBOR array.
//!
//! A path whose own address has disappeared can carry no farewell, so the other paths report it. The two sides may see
//! different addresses, and they number paths differently. So a notice names a path by a secret of its QUIC connection,
//! which both sides derive.

use std::net::IpAddr;

use minicbor::{Decoder, Encoder};
use quinn::Connection;

use super::hello::{read_host, write_hosts};
use crate::multipath::MAX_PATHS;

/// The first byte of a notice. A chunk begins with another one.
pub(super) const NOTICE: u8 = 3;
/// The exporter label of [`path_name`] (RFC 8446, section 7.5).
const OF_NAME: &[u8] = b"EXPORTER-roost-path-name";
const NAME_BYTES: usize = 8;

/// The name of a path, which is the same on both sides.
pub(super) type PathName = [u8; NAME_BYTES];

#[derive(Debug, PartialEq, Eq)]
pub(super) enum AddressUpdate {
    /// This path is given up, since its address has disappeared.
    Gone(PathName),
    /// The addresses at which the side that was dialed listens now, at the same port. Notices may overtake one another,
    /// so the one with the greatest number counts.
    Hosts { number: u32, hosts: Vec<IpAddr> },
}

/// Derives the name of a path from its QUIC connection.
pub(super) fn path_name(quinn_connection: &Connection) -> Option<PathName> {
    let mut name = PathName::default();
    quinn_connection.export_keying_material(&mut name, OF_NAME, b"").ok()?;
    Some(name)
}

impl AddressUpdate {
    pub(super) fn write(&self) -> Vec<u8> {
        let mut bytes = vec![NOTICE];
        let mut encoder = Encoder::new(&mut bytes);
        let written = match self {
            Self::Gone(name) => encoder.array(2).and_then(|it| it.u8(0)?.bytes(name)).map(drop),
            Self::Hosts { number, hosts } => {
                let hosts = &hosts[..hosts.len().min(MAX_PATHS)];
                let begun = encoder.array(2 + hosts.len() as u64).and_then(|it| it.u8(1)?.u32(*number)).map(drop);
                begun.and_then(|()| write_hosts(&mut encoder, hosts))
            }
        };
        debug_assert!(written.is_ok(), "writing to memory does not fail");
        bytes
    }

    /// Reads a stream of the remote. `None` if it is not a notice, or is one of a later version.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let (_, body) = bytes.split_first().filter(|(first, _)| **first == NOTICE)?;
        let mut decoder = Decoder::new(body);
        let count = decoder.array().ok()??.checked_sub(2).filter(|count| *count <= MAX_PATHS as u64)?;
        match decoder.u8().ok()? {
            0 => Some(Self::Gone(decoder.bytes().ok()?.try_into().ok()?)),
            1 => {
                let number = decoder.u32().ok()?;
                let hosts = (0..count).map(|_| read_host(&mut decoder)).collect::<Option<_>>()?;
                Some(Self::Hosts { number, hosts })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn address_updates_round_trip(
            name in any::<PathName>(),
            number in any::<u32>(),
            hosts in prop::collection::vec(any::<IpAddr>(), 0..MAX_PATHS),
        ) {
            for notice in [AddressUpdate::Gone(name), AddressUpdate::Hosts { number, hosts }] {
                prop_assert_eq!(AddressUpdate::read(&notice.write()), Some(notice));
            }
        }

        #[test]
        fn nonsense_is_no_notice(mut bytes in prop::collection::vec(any::<u8>(), 1..40)) {
            let _ = AddressUpdate::read(&bytes);
            bytes[0] = NOTICE;
            let _ = AddressUpdate::read(&bytes);
        }
    }
}
