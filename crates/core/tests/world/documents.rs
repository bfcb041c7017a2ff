//! Revocation lists as the owners of a world's machines know them: a number, a mark that stands for the signature, and
//! the hosts that are revoked.

use bytes::Bytes;
use roost_core::{DocumentVerdict, ReceivedDocument};
use roost_wire::messages::DocumentKind;

use super::{HostId, World};

pub const SIGNED: u8 = 1;

/// The list that a host has in force.
#[derive(Default)]
pub struct RevocationList {
    pub number: u64,
    pub revoked: Vec<HostId>,
    pub refused: u64,
}

/// A list with filling up to `length`, with a mark in the place of its signature.
pub fn list(number: u64, mark: u8, revoked: &[HostId], length: usize) -> Bytes {
    let mut bytes = number.to_be_bytes().to_vec();
    bytes.extend([mark, revoked.len() as u8]);
    bytes.extend(revoked.iter().flat_map(|host| (host.0 as u32).to_be_bytes()));
    bytes.resize(bytes.len().max(length), 0xee);
    bytes.into()
}

impl RevocationList {
    /// Judges a list as a daemon does. A new one is in force from now on.
    pub fn judge(&mut self, received: ReceivedDocument) -> DocumentVerdict {
        let ReceivedDocument { kind, bytes, from } = received;
        match read(&bytes) {
            Some((number, revoked)) => {
                if number > self.number {
                    (self.number, self.revoked) = (number, revoked);
                }
                DocumentVerdict::Verified { kind, number, bytes, from: Some(from) }
            }
            None => {
                self.refused += 1;
                DocumentVerdict::Refused { kind, from }
            }
        }
    }
}

fn read(bytes: &[u8]) -> Option<(u64, Vec<HostId>)> {
    let number = u64::from_be_bytes(bytes.get(..8)?.try_into().ok()?);
    let count = usize::from(*bytes.get(9).filter(|_| bytes[8] == SIGNED)?);
    let hosts = bytes.get(10..10 + 4 * count)?.chunks(4);
    Some((number, hosts.map(|host| HostId(u32::from_be_bytes(host.try_into().unwrap()) as usize)).collect()))
}

impl World {
    /// A signed list is handed to a host by its operator.
    pub fn publish_list(&mut self, host: HostId, bytes: &Bytes) {
        let now = self.now;
        if self.hosts[host.0].publish_list(now, bytes.clone()) {
            self.drain(host);
        }
    }

    pub fn publish_everywhere(&mut self) {
        let first = list(1, SIGNED, &[], 300);
        (0..self.hosts.len()).map(HostId).for_each(|host| self.publish_list(host, &first));
    }

    /// The number of the list that a host has in force.
    pub fn list_number(&self, host: HostId) -> u64 {
        self.hosts[host.0].list.number
    }

    pub const fn list_kind() -> DocumentKind {
        DocumentKind::REVOCATIONS
    }

    /// Ends the connections of a host with those that it knows to be revoked.
    pub(super) fn shut_out(&mut self, host: HostId) {
        for member in self.hosts[host.0].take_newly_revoked() {
            let ends = self.ends.get(&member).cloned().unwrap_or_default();
            let far = |end| self.connections.get(end).filter(|end| end.far_host == host).map(|end| end.far);
            for end in ends.iter().filter_map(far).collect::<Vec<_>>() {
                self.hang_up(end);
                self.take_down(end);
            }
        }
    }
}
