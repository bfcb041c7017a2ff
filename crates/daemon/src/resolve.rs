//! Names to addresses, at the start and again at each dial.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use roost_proto::{Address, Endpoint};
use tokio::sync::Mutex;

/// The most addresses that one name stands for; the resolver's order counts.
const MAX_PER_NAME: usize = 4;

/// Why an endpoint leads nowhere.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot resolve {host:?} of {endpoint}: {reason}")]
pub struct ResolveError {
    endpoint: Endpoint,
    host: String,
    reason: String,
}

/// The addresses that an endpoint stands for, one for each address of a name;
/// of several hosts the first address of each, together.
///
/// # Errors
/// When a host has no address.
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
/// When a host has no address.
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

/// Hubs that were configured by name. A machine knows addresses only; when it
/// dials one of these again the names are looked up again.
#[derive(Clone, Debug, Default)]
pub struct Redial {
    hubs: Vec<Arc<Named>>,
}

#[derive(Debug)]
struct Named {
    endpoints: Vec<Endpoint>,
    /// What the machine was told at the start: how it calls this hub.
    told: Vec<Address>,
    /// What the resolver said last.
    latest: Mutex<Vec<Address>>,
}

impl Redial {
    /// The hubs of both.
    #[must_use]
    pub fn with(mut self, other: Self) -> Self {
        self.hubs.extend(other.hubs);
        self
    }

    /// Resolves the hubs, and remembers those that have names. One that has no
    /// address is left out, as long as there is another.
    ///
    /// # Errors
    /// When none of the hubs has an address.
    pub async fn resolve(hubs: &[Vec<Endpoint>]) -> Result<(Self, Vec<Vec<Address>>), ResolveError> {
        let mut named = Vec::new();
        let mut resolved = Vec::with_capacity(hubs.len());
        let mut left_out = None;
        for endpoints in hubs {
            let told = match resolve_all(endpoints).await {
                Ok(told) => told,
                Err(error) => {
                    tracing::warn!(%error, "this hub is left out until the next start");
                    left_out = Some(error);
                    continue;
                }
            };
            if endpoints.iter().any(|endpoint| endpoint.hosts.iter().any(|host| host.parse::<IpAddr>().is_err())) {
                let latest = Mutex::new(told.clone());
                named.push(Arc::new(Named { endpoints: endpoints.clone(), told: told.clone(), latest }));
            }
            resolved.push(told);
        }
        match left_out {
            Some(error) if resolved.is_empty() => Err(error),
            _ => Ok((Self { hubs: named }, resolved)),
        }
    }

    /// Whether one of the addresses belongs to a hub with a name.
    pub fn concerns(&self, addresses: &[Address]) -> bool {
        self.find(addresses).is_some()
    }

    /// The addresses with those of the hub's names as they are now. If the
    /// resolver fails, what it said last.
    pub async fn refresh(&self, addresses: Vec<Address>) -> Vec<Address> {
        let Some(named) = self.find(&addresses) else { return addresses };
        let mut latest = named.latest.lock().await;
        match resolve_all(&named.endpoints).await {
            Ok(fresh) => *latest = fresh,
            Err(error) => tracing::warn!(%error, "the hub's last known address is used"),
        }
        let wanted = |address: &&Address| addresses.iter().any(|old| old.scheme == address.scheme);
        let fresh: Vec<Address> = latest.iter().filter(wanted).cloned().collect();
        let others = addresses.into_iter().filter(|old| !named.told.contains(old));
        fresh.into_iter().chain(others).collect()
    }

    fn find(&self, addresses: &[Address]) -> Option<&Named> {
        self.hubs.iter().map(Arc::as_ref).find(|named| addresses.iter().any(|address| named.told.contains(address)))
    }
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
            Redial::resolve(&[vec![endpoint("udp://[::1]:9"), endpoint("tcp://127.0.0.1:9")]]).await.unwrap();
        assert_eq!(hubs[0].iter().map(ToString::to_string).collect::<Vec<_>>(), ["udp://[::1]:9", "tcp://127.0.0.1:9"]);
        assert!(!redial.concerns(&hubs[0]));
    }

    #[tokio::test]
    async fn a_name_is_looked_up_again_at_each_dial() {
        let (redial, hubs) =
            Redial::resolve(&[vec![endpoint("udp://localhost:9"), endpoint("tcp://localhost:9")]]).await.unwrap();
        assert!(redial.concerns(&hubs[0]));
        assert_eq!(redial.refresh(hubs[0].clone()).await, hubs[0]);
        let udp_only: Vec<Address> =
            hubs[0].iter().filter(|address| address.scheme == roost_proto::Scheme::Udp).cloned().collect();
        assert_eq!(redial.refresh(udp_only.clone()).await, udp_only);
    }

    #[tokio::test]
    async fn a_hub_without_an_address_does_not_stop_a_daemon_that_has_another() {
        // Longer than a label may be: no resolver is asked.
        let name = "n".repeat(64);
        let (nowhere, here) = (vec![endpoint(&format!("udp://{name}:9"))], vec![endpoint("udp://127.0.0.1:9")]);
        let (_, hubs) = Redial::resolve(&[nowhere.clone(), here]).await.unwrap();
        assert_eq!(hubs.len(), 1);
        let error = Redial::resolve(&[nowhere]).await.unwrap_err().to_string();
        assert!(error.contains(&name), "{error}");
    }

    #[tokio::test]
    async fn several_hosts_make_one_address() {
        let addresses = resolve(&endpoint("quic://127.0.0.1+127.0.0.2:9")).await.unwrap();
        assert_eq!(addresses.len(), 1);
        assert_eq!(addresses[0].hosts.len(), 2);
    }
}
