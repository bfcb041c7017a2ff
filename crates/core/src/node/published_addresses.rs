//! The addresses that a node publishes, as far as it has them at the moment.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use roost_wire::{Address, Scheme};

/// The addresses that the node was told to publish, and those that are gone.
#[derive(Debug)]
pub(super) struct PublishedAddresses {
    listed: Vec<Address>,
    /// No more than there are listed.
    gone: BTreeSet<(Scheme, SocketAddr)>,
}

impl PublishedAddresses {
    pub(super) fn new(listed: Vec<Address>) -> Self {
        Self { listed, gone: BTreeSet::new() }
    }

    /// Notes that an address is there, or not any more; answers whether it is one
    /// of those that are published.
    pub(super) fn update_presence(&mut self, scheme: Scheme, at: SocketAddr, is_there: bool) -> bool {
        let is_it = |address: &Address| (address.scheme, address.port) == (scheme, at.port());
        if !self.listed.iter().any(|address| is_it(address) && address.hosts.contains(&at.ip())) {
            return false;
        }
        match is_there {
            true => self.gone.remove(&(scheme, at)),
            false => self.gone.insert((scheme, at)),
        }
    }

    /// The addresses with those of their hosts that are there; an address of
    /// which none is stays as it is, since it may be back any moment.
    pub(super) fn present(&self) -> Vec<Address> {
        let there = |address: &Address| {
            let is_there = |ip| !self.gone.contains(&(address.scheme, SocketAddr::new(ip, address.port)));
            let hosts: Vec<_> = address.hosts.iter().copied().filter(|ip| is_there(*ip)).collect();
            if hosts.is_empty() { address.clone() } else { Address { hosts, ..address.clone() } }
        };
        self.listed.iter().map(there).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(hosts: &[u8]) -> Address {
        let hosts = hosts.iter().map(|last| [10, 0, 0, *last].into()).collect();
        Address { scheme: Scheme::Quic, port: 7711, hosts }
    }

    #[test]
    fn absent_address_omitted_until_it_returns() {
        let mut hosts = PublishedAddresses::new(vec![address(&[1, 2]), address(&[3])]);
        let at = |last| SocketAddr::from(([10, 0, 0, last], 7711));
        assert!(
            hosts.update_presence(Scheme::Quic, at(2), false) && !hosts.update_presence(Scheme::Quic, at(2), false)
        );
        assert_eq!(hosts.present(), [address(&[1]), address(&[3])]);
        // The only one of its address.
        assert!(hosts.update_presence(Scheme::Quic, at(3), false));
        assert_eq!(hosts.present(), [address(&[1]), address(&[3])]);
        assert!(hosts.update_presence(Scheme::Quic, at(2), true));
        assert_eq!(hosts.present(), [address(&[1, 2]), address(&[3])]);
    }

    #[test]
    fn unpublished_address_changes_nothing() {
        let mut hosts = PublishedAddresses::new(vec![address(&[1])]);
        for (scheme, at) in
            [(Scheme::Udp, "10.0.0.1:7711"), (Scheme::Quic, "10.0.0.1:1"), (Scheme::Quic, "10.0.0.9:7711")]
        {
            assert!(!hosts.update_presence(scheme, at.parse().unwrap(), false));
        }
        assert_eq!(hosts.present(), [address(&[1])]);
    }
}
