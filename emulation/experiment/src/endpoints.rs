//! The endpoints of daemons, which `emulate run` and `emulate simulate` choose alike.

use std::net::Ipv4Addr;

use roost_topology::HostAddresses;
use roost_topology::model::HostIndex;
use roost_wire::address::MAX_HOSTS;
use roost_wire::{Address, Scheme};

/// The most nets over which a daemon is reached.
const MAX_NETS: usize = 16;
/// So many addresses of UDP and TCP, and one of QUIC, are within the most that a record has.
const MAX_PUBLISHED: usize = 3;

/// The endpoints at which daemons listen, in an order of transports.
#[derive(Clone, Debug)]
pub struct Endpoints {
    addresses: HostAddresses,
    schemes: Vec<Scheme>,
}

impl Endpoints {
    /// The transports of `schemes` come in this order.
    pub fn new(addresses: HostAddresses, schemes: impl IntoIterator<Item = Scheme>) -> Self {
        Self { addresses, schemes: schemes.into_iter().collect() }
    }

    /// All endpoints of a daemon on a host, with one of each transport first: some who name it to others keep four.
    pub fn all(&self, host: HostIndex, port: impl Fn(Scheme) -> u16) -> Vec<Address> {
        let mut hosts = self.addresses.all(host);
        hosts.truncate(MAX_NETS);
        let all = self.list(&hosts, port);
        let first_of = |scheme| all.iter().position(|address| address.scheme == scheme);
        let places = all.iter().enumerate();
        let (first, rest): (Vec<_>, Vec<_>) =
            places.partition(|(place, address)| first_of(address.scheme) == Some(*place));
        first.into_iter().chain(rest).map(|(_, address)| address.clone()).collect()
    }

    /// The endpoints that a daemon on `other` dials to reach one on `host`.
    pub fn toward(&self, host: HostIndex, other: HostIndex, port: impl Fn(Scheme) -> u16) -> Vec<Address> {
        let listened: Vec<_> = self.addresses.all(host).into_iter().take(MAX_NETS).collect();
        let mut hosts = self.addresses.toward(host, other);
        hosts.retain(|host| listened.contains(host));
        hosts.truncate(MAX_HOSTS);
        self.list(&hosts, port)
    }

    /// The address of a daemon's media port; the unspecified one stands for all of the host's.
    pub fn media(&self, host: HostIndex) -> Option<Ipv4Addr> {
        let main = self.addresses.main(host)?;
        Some(if self.addresses.all(host).len() > 1 { Ipv4Addr::UNSPECIFIED } else { main })
    }

    /// The endpoints of the first hosts, which a record holds, come first.
    fn list(&self, hosts: &[Ipv4Addr], port: impl Fn(Scheme) -> u16) -> Vec<Address> {
        let of = |scheme: Scheme, hosts: &[Ipv4Addr]| {
            let together = if scheme == Scheme::Quic { MAX_HOSTS } else { 1 };
            let address = |hosts: &[Ipv4Addr]| {
                let hosts = hosts.iter().map(|host| (*host).into()).collect();
                Address { scheme, port: port(scheme), hosts }
            };
            hosts.chunks(together).map(address).collect::<Vec<_>>()
        };
        let split = |scheme| hosts.len().min(if scheme == Scheme::Quic { MAX_HOSTS } else { MAX_PUBLISHED });
        let first = self.schemes.iter().flat_map(|scheme| of(*scheme, &hosts[..split(*scheme)]));
        first.chain(self.schemes.iter().flat_map(|scheme| of(*scheme, &hosts[split(*scheme)..]))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roost_topology::addresses;
    use roost_topology::file;
    use roost_topology::model::Topology;

    /// The addresses of a hub that other hubs keep.
    const MAX_NAMED: usize = 4;

    fn port(scheme: Scheme) -> u16 {
        7700 + u16::from(scheme == Scheme::Quic)
    }

    fn endpoints(topology: &Topology) -> Endpoints {
        Endpoints::new(HostAddresses::from_topology(&addresses::assign(topology).unwrap()), Scheme::ALL)
    }

    fn texts(endpoints: Vec<Address>) -> Vec<String> {
        endpoints.iter().map(ToString::to_string).collect()
    }

    /// A topology with so many LANs of two hosts, and a third host on the last one.
    fn lans(count: usize) -> Topology {
        let lan = |number: usize| {
            let third = if number + 1 == count { ", 'c'" } else { "" };
            format!("[[lan]]\nname = 'n{number}'\nmembers = ['a', 'b'{third}]\nrate = '1Mbit'\n")
        };
        let text = format!("[[host]]\nname = ['a', 'b', 'c']\n{}", (0..count).map(lan).collect::<String>());
        file::parse("t", &text).unwrap()
    }

    #[test]
    fn single_net_has_single_endpoints() {
        let one = endpoints(&lans(1));
        let expected = ["udp://10.1.1.2:7700", "tcp://10.1.1.2:7700", "quic://10.1.1.2:7701"];
        assert_eq!(texts(one.all(0, port)), expected);
        assert_eq!(texts(one.toward(0, 1, port)), expected);
    }

    #[test]
    fn shared_net_begins_each_transport() {
        let two = endpoints(&lans(2));
        let dialed = [
            "udp://10.1.2.2:7700",
            "udp://10.1.1.2:7700",
            "tcp://10.1.2.2:7700",
            "tcp://10.1.1.2:7700",
            "quic://10.1.2.2+10.1.1.2:7701",
        ];
        assert_eq!(texts(two.toward(0, 2, port)), dialed);
        assert_eq!(texts(two.toward(0, 1, port))[..2], ["udp://10.1.1.2:7700", "udp://10.1.2.2:7700"]);
        assert_eq!([two.media(0), two.media(2)], [Some(Ipv4Addr::UNSPECIFIED), two.addresses.main(2)]);
    }

    #[test]
    fn records_hold_every_transport() {
        for count in 1..20 {
            let many = endpoints(&lans(count));
            let all = many.all(0, port);
            let held = &all[..all.len().min(MAX_NAMED)];
            assert!(Scheme::ALL.iter().all(|scheme| held.iter().any(|address| address.scheme == *scheme)), "{held:?}");
            assert!(all.iter().all(|address| (1..=MAX_HOSTS).contains(&address.hosts.len())));
            // All that others dial is listened on.
            let listens = |scheme, host| all.iter().any(|own| own.scheme == scheme && own.hosts.contains(host));
            let dialed = many.toward(0, 2, port);
            assert!(dialed.iter().all(|to| to.hosts.iter().all(|host| listens(to.scheme, host))), "{dialed:?}");
        }
    }
}
