//! Names to addresses, at the start and again at each dial.

mod redial;
mod srv;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use roost_wire::{Address, Endpoint};

pub use redial::EndpointResolver;

/// The most addresses of a name, of both families together.
const MAX_PER_NAME: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot resolve {name}: {reason}")]
pub struct ResolveError {
    name: String,
    reason: String,
}

/// The addresses of an endpoint, one for each address of its name. An endpoint with several hosts has a single address
/// with the first address of each.
///
/// # Errors
/// Fails if a host has no address.
pub async fn resolve(endpoint: &Endpoint) -> Result<Vec<Address>, ResolveError> {
    let &Endpoint { scheme, port, .. } = endpoint;
    let mut hosts = Vec::with_capacity(endpoint.hosts.len());
    for host in &endpoint.hosts {
        hosts.push(look_up(endpoint, host).await?);
    }
    if let [single] = hosts.as_slice() {
        return Ok(single.iter().map(|ip| Address::single(scheme, SocketAddr::new(*ip, port))).collect());
    }
    let firsts = hosts.iter().filter_map(|ips| ips.first().copied()).collect();
    Ok(vec![Address { scheme, port, hosts: firsts }])
}

/// The addresses of several endpoints, in their order.
///
/// # Errors
/// Fails if a host has no address.
pub async fn resolve_all(endpoints: &[Endpoint]) -> Result<Vec<Address>, ResolveError> {
    let mut addresses = Vec::with_capacity(endpoints.len());
    for endpoint in endpoints {
        addresses.extend(resolve(endpoint).await?);
    }
    Ok(addresses)
}

async fn look_up(endpoint: &Endpoint, host: &str) -> Result<Vec<IpAddr>, ResolveError> {
    if let Ok(ip) = host.parse() {
        return Ok(vec![ip]);
    }
    let wrong = |reason: String| ResolveError { name: format!("{host:?} of {endpoint}"), reason };
    let found = tokio::net::lookup_host((host, endpoint.port)).await.map_err(|error| wrong(error.to_string()))?;
    let ips = alternate(found.map(|socket| socket.ip()).collect());
    if ips.is_empty() { Err(wrong("it has no address".to_owned())) } else { Ok(ips) }
}

/// The first addresses, of either family in turn, as RFC 8305 advises: one family may lead nowhere. The resolver's order
/// counts within each.
fn alternate(ips: Vec<IpAddr>) -> Vec<IpAddr> {
    let is_v6_first = ips.first().is_some_and(IpAddr::is_ipv6);
    let (first, second): (Vec<IpAddr>, Vec<IpAddr>) = ips.into_iter().partition(|ip| ip.is_ipv6() == is_v6_first);
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    let mut all = Vec::with_capacity(MAX_PER_NAME);
    while all.len() < MAX_PER_NAME {
        let before = all.len();
        all.extend(first.next().into_iter().chain(second.next()));
        if all.len() == before {
            break;
        }
    }
    all.truncate(MAX_PER_NAME);
    all
}

/// True if an address leads to a daemon that listens on `local`: the same list of super nodes may serve all of them.
pub fn is_own_address(addresses: &[Address], local: &[Address]) -> bool {
    addresses.iter().any(|address| {
        local.iter().filter(|own| own.scheme == address.scheme && own.port == address.port).any(|own| {
            let anywhere = own.hosts.iter().any(IpAddr::is_unspecified);
            address.hosts.iter().any(|host| own.hosts.contains(host) || anywhere && is_of_this_host(*host))
        })
    })
}

/// The way to an address of this host begins at that address. Nothing is sent.
fn is_of_this_host(host: IpAddr) -> bool {
    let from: IpAddr = if host.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let begins = UdpSocket::bind((from, 0)).and_then(|socket| {
        socket.connect((host, 9))?;
        socket.local_addr()
    });
    begins.is_ok_and(|begins| begins.ip() == host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(text: &str) -> Endpoint {
        text.parse().unwrap()
    }

    fn literal(text: &str) -> Vec<Address> {
        let Endpoint { scheme, port, hosts, .. } = endpoint(text);
        vec![Address { scheme, port, hosts: hosts.iter().map(|host| host.parse().unwrap()).collect() }]
    }

    #[test]
    fn own_address_is_recognized() {
        let listens = literal("udp://0.0.0.0:7700");
        assert!(is_own_address(&literal("udp://127.0.0.1:7700"), &listens));
        assert!(is_own_address(&literal("udp://192.0.2.7:7700"), &literal("udp://192.0.2.7:7700")));
        for other in ["udp://127.0.0.1:7701", "tcp://127.0.0.1:7700", "udp://192.0.2.7:7700", "udp://[100::1]:7700"] {
            assert!(!is_own_address(&literal(other), &listens), "{other}");
        }
    }

    #[tokio::test]
    async fn several_hosts_make_one_address() {
        let addresses = resolve(&endpoint("quic://127.0.0.1+127.0.0.2:9")).await.unwrap();
        assert_eq!(addresses.len(), 1);
        assert_eq!(addresses[0].hosts.len(), 2);
    }

    #[test]
    fn both_families_are_among_first_addresses() {
        let v6 = |last: u16| IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, last]);
        let v4 = |last| IpAddr::from([10, 0, 0, last]);
        let many: Vec<IpAddr> = (1..=12).map(v6).chain([v4(1), v4(2)]).collect();
        assert_eq!(alternate(many), [v6(1), v4(1), v6(2), v4(2), v6(3), v6(4), v6(5), v6(6)]);
        assert_eq!(alternate(vec![v4(1), v6(1)]), [v4(1), v6(1)]);
        assert_eq!(alternate(Vec::new()), [] as [IpAddr; 0]);
    }
}
