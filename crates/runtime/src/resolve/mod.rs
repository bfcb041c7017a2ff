//! Names to addresses, at the start and again at each dial.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use roost_wire::{Address, Endpoint};
use tokio::sync::Mutex;

/// The most addresses of a name; the resolver's order counts.
const MAX_PER_NAME: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot resolve {host:?} of {endpoint}: {reason}")]
pub struct ResolveError {
    endpoint: Endpoint,
    host: String,
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
    let wrong = |reason: String| ResolveError { endpoint: endpoint.clone(), host: host.to_owned(), reason };
    let found = tokio::net::lookup_host((host, endpoint.port)).await.map_err(|error| wrong(error.to_string()))?;
    let ips: Vec<IpAddr> = found.map(|socket| socket.ip()).take(MAX_PER_NAME).collect();
    if ips.is_empty() { Err(wrong("it has no address".to_owned())) } else { Ok(ips) }
}

/// The longest wait of a start or a dial for the resolver: other addresses of the hub may need no resolver.
const PATIENCE: Duration = Duration::from_secs(5);

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

/// Resolves the names of configured hubs again at each dial, since a machine knows addresses only. A name without an
/// address at the start gets a placeholder address, so that the machine dials it like any other: an area that is cut
/// off from its resolver still serves itself.
#[derive(Clone, Debug, Default)]
pub struct EndpointResolver {
    names: Vec<Arc<NamedEndpoint>>,
}

#[derive(Debug)]
struct NamedEndpoint {
    endpoint: Endpoint,
    /// The addresses that the machine knows: those of the start, or the placeholder.
    told: Vec<Address>,
    /// The resolver's latest addresses; empty until the name resolves.
    latest: Mutex<Vec<Address>>,
}

impl NamedEndpoint {
    async fn new(endpoint: &Endpoint, number: u32) -> Self {
        let latest = resolve_in_time(endpoint).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "the name does not resolve; each dial tries again");
            Vec::new()
        });
        let told = if latest.is_empty() { vec![placeholder_address(endpoint, number)] } else { latest.clone() };
        Self { endpoint: endpoint.clone(), told, latest: Mutex::new(latest) }
    }

    /// The resolver's present addresses, or its latest ones if it fails.
    async fn look_up(&self) -> Result<Vec<Address>, ResolveError> {
        let mut latest = self.latest.lock().await;
        match resolve_in_time(&self.endpoint).await {
            Ok(fresh) => latest.clone_from(&fresh),
            Err(error) if latest.is_empty() => return Err(error),
            Err(error) => tracing::warn!(%error, "the hub's last known address is used"),
        }
        Ok(latest.clone())
    }
}

async fn resolve_in_time(endpoint: &Endpoint) -> Result<Vec<Address>, ResolveError> {
    let silent = || {
        let (host, reason) = (endpoint.hosts.join("+"), "the resolver is silent".to_owned());
        Err(ResolveError { endpoint: endpoint.clone(), host, reason })
    };
    tokio::time::timeout(PATIENCE, resolve(endpoint)).await.unwrap_or_else(|_| silent())
}

/// An address that leads nowhere (RFC 6666) and that no other name has.
fn placeholder_address(endpoint: &Endpoint, number: u32) -> Address {
    let [high, low] = [(number >> 16) as u16, number as u16];
    let nowhere = Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, high, low);
    Address { scheme: endpoint.scheme, port: endpoint.port, hosts: vec![nowhere.into()] }
}

impl EndpointResolver {
    /// The addresses of the hubs for the machine, or placeholders. Waits at most [`PATIENCE`], and only if a host is a
    /// name.
    pub async fn resolve(hubs: &[Vec<Endpoint>]) -> (Self, Vec<Vec<Address>>) {
        let is_named = |endpoint: &&Endpoint| endpoint.hosts.iter().any(|host| host.parse::<IpAddr>().is_err());
        let named = hubs.iter().flatten().filter(is_named).zip(1..);
        let names = join_all(named.map(|(endpoint, number)| NamedEndpoint::new(endpoint, number))).await;
        let names: Vec<_> = names.into_iter().map(Arc::new).collect();
        let told = |endpoint: &Endpoint| match names.iter().find(|named| named.endpoint == *endpoint) {
            Some(named) => named.told.clone(),
            None => addresses(endpoint),
        };
        let resolved = hubs.iter().map(|endpoints| endpoints.iter().flat_map(told).collect()).collect();
        (Self { names }, resolved)
    }

    /// True if an address belongs to a hub with a name.
    pub fn concerns(&self, addresses: &[Address]) -> bool {
        addresses.iter().any(|address| self.find(address).is_some())
    }

    /// The addresses, with the present addresses of names. If the resolver fails, the latest ones are used.
    ///
    /// # Errors
    /// Fails if no address is left.
    pub async fn refresh(&self, addresses: Vec<Address>) -> Result<Vec<Address>, ResolveError> {
        let (mut fresh, mut asked, mut failure) = (Vec::new(), Vec::<&NamedEndpoint>::new(), None);
        for address in addresses {
            let Some(named) = self.find(&address) else {
                fresh.push(address);
                continue;
            };
            if asked.iter().any(|other| std::ptr::eq(*other, named)) {
                continue;
            }
            asked.push(named);
            match named.look_up().await {
                Ok(found) => fresh.extend(found),
                Err(error) => failure = Some(error),
            }
        }
        failure.filter(|_| fresh.is_empty()).map_or(Ok(fresh), Err)
    }

    /// The endpoint of the configuration for an address; the address itself if it has no name.
    pub fn name(&self, address: &Address) -> String {
        self.find(address).map_or_else(|| address.to_string(), |named| named.endpoint.to_string())
    }

    fn find(&self, address: &Address) -> Option<&NamedEndpoint> {
        self.names.iter().map(Arc::as_ref).find(|named| named.told.contains(address))
    }
}

/// The address of an endpoint without a name.
fn addresses(endpoint: &Endpoint) -> Vec<Address> {
    let hosts: Vec<IpAddr> = endpoint.hosts.iter().filter_map(|host| host.parse().ok()).collect();
    vec![Address { scheme: endpoint.scheme, port: endpoint.port, hosts }]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(text: &str) -> Endpoint {
        text.parse().unwrap()
    }

    #[tokio::test]
    async fn addresses_need_no_resolver() {
        let (redial, hubs) =
            EndpointResolver::resolve(&[vec![endpoint("udp://[::1]:9"), endpoint("tcp://127.0.0.1:9")]]).await;
        assert_eq!(hubs[0].iter().map(ToString::to_string).collect::<Vec<_>>(), ["udp://[::1]:9", "tcp://127.0.0.1:9"]);
        assert!(!redial.concerns(&hubs[0]));
    }

    #[tokio::test]
    async fn name_is_resolved_at_each_dial() {
        let (redial, hubs) =
            EndpointResolver::resolve(&[vec![endpoint("udp://localhost:9"), endpoint("tcp://localhost:9")]]).await;
        assert!(redial.concerns(&hubs[0]));
        assert_eq!(redial.refresh(hubs[0].clone()).await, Ok(hubs[0].clone()));
        let udp_only: Vec<Address> =
            hubs[0].iter().filter(|address| address.scheme == roost_wire::Scheme::Udp).cloned().collect();
        assert_eq!(redial.refresh(udp_only.clone()).await, Ok(udp_only));
        assert_eq!(redial.name(&hubs[0][0]), "udp://localhost:9");
    }

    #[tokio::test]
    async fn unresolved_name_gets_placeholder_address() {
        // Longer than a label may be: no resolver is asked.
        let names = ["a", "b"].map(|letter| format!("udp://{}:9", letter.repeat(64)));
        let configured = [vec![endpoint(&names[0])], vec![endpoint(&names[1]), endpoint("udp://127.0.0.1:9")]];
        let (redial, hubs) = EndpointResolver::resolve(&configured).await;
        assert_ne!(hubs[0][0], hubs[1][0]);
        assert_eq!([redial.name(&hubs[0][0]), redial.name(&hubs[1][0])], names);
        let error = redial.refresh(hubs[0].clone()).await.unwrap_err().to_string();
        assert!(error.contains(&names[0]), "{error}");
        let rest = redial.refresh(hubs[1].clone()).await.unwrap();
        assert_eq!(rest, hubs[1][1..], "the hub is still reached where it has an address");
    }

    #[test]
    fn own_address_is_recognized() {
        let all = |text: &str| addresses(&endpoint(text));
        let listens = all("udp://0.0.0.0:7700");
        assert!(is_own_address(&all("udp://127.0.0.1:7700"), &listens));
        assert!(is_own_address(&all("udp://192.0.2.7:7700"), &all("udp://192.0.2.7:7700")));
        for other in ["udp://127.0.0.1:7701", "tcp://127.0.0.1:7700", "udp://192.0.2.7:7700", "udp://[100::1]:7700"] {
            assert!(!is_own_address(&all(other), &listens), "{other}");
        }
    }

    #[tokio::test]
    async fn several_hosts_make_one_address() {
        let addresses = resolve(&endpoint("quic://127.0.0.1+127.0.0.2:9")).await.unwrap();
        assert_eq!(addresses.len(), 1);
        assert_eq!(addresses[0].hosts.len(), 2);
    }
}
