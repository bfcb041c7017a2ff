//! Hubs of the configuration, whose names are resolved again at each dial, since a machine knows addresses only.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use roost_wire::{Address, Endpoint, HubName};
use tokio::sync::Mutex;

use super::srv::{Dns, SrvLookup};
use super::{ResolveError, is_own_address, resolve};

/// The longest wait of a start or a dial for the resolver: other addresses of the hub may need no resolver.
const PATIENCE: Duration = Duration::from_secs(5);

/// Resolves the names of hubs. A name without an address at the start gets a placeholder address, so that the machine
/// dials it like any other: an area that is cut off from its resolver still serves itself.
#[derive(Clone, Debug, Default)]
pub struct EndpointResolver {
    names: Vec<Arc<NamedHub>>,
    /// The addresses at which this daemon listens: a name of several hubs may lead to it as well.
    listening: Vec<Address>,
}

#[derive(Debug)]
struct NamedHub {
    name: Name,
    /// The addresses that the machine knows: those of the start, or the placeholder. None if all were this daemon's.
    told: Vec<Address>,
    /// The resolver's latest addresses; empty until the name resolves.
    latest: Mutex<Vec<Address>>,
}

#[derive(Clone, Debug)]
enum Name {
    Endpoint(Endpoint),
    /// A target of a service record, by its place in the order in which targets are tried.
    Target(Arc<SrvLookup>, usize),
}

impl Name {
    async fn resolve(&self) -> Result<Vec<Address>, ResolveError> {
        match self {
            Self::Endpoint(endpoint) => resolve(endpoint).await,
            Self::Target(lookup, place) => lookup.target(*place).await,
        }
    }

    async fn resolve_in_time(&self) -> Result<Vec<Address>, ResolveError> {
        let silent = || Err(ResolveError { name: self.text(), reason: "the resolver is silent".to_owned() });
        tokio::time::timeout(PATIENCE, self.resolve()).await.unwrap_or_else(|_| silent())
    }

    fn text(&self) -> String {
        match self {
            Self::Endpoint(endpoint) => endpoint.to_string(),
            Self::Target(lookup, _) => lookup.name().to_string(),
        }
    }

    /// An address that leads nowhere (RFC 6666) and that no other name has.
    fn placeholder(&self, number: u32) -> Address {
        let (scheme, port) = match self {
            Self::Endpoint(endpoint) => (endpoint.scheme, endpoint.port),
            Self::Target(lookup, _) => (lookup.name().scheme, 0),
        };
        let [high, low] = [(number >> 16) as u16, number as u16];
        let nowhere = Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, high, low);
        Address { scheme, port, hosts: vec![nowhere.into()] }
    }
}

impl NamedHub {
    /// The resolver's present addresses, or its latest ones if it fails.
    async fn look_up(&self) -> Result<Vec<Address>, ResolveError> {
        let mut latest = self.latest.lock().await;
        match self.name.resolve_in_time().await {
            Ok(fresh) => latest.clone_from(&fresh),
            Err(error) if latest.is_empty() => return Err(error),
            Err(error) => tracing::warn!(%error, "the hub's last known address is used"),
        }
        Ok(latest.clone())
    }
}

/// An endpoint of a hub at the start.
enum Way {
    Literal(Address),
    Named(NamedHub),
}

impl Way {
    fn addresses(&self) -> &[Address] {
        match self {
            Self::Literal(address) => std::slice::from_ref(address),
            Self::Named(named) => &named.told,
        }
    }
}

struct Start<'a> {
    dns: Dns,
    listening: &'a [Address],
    placeholders: AtomicU32,
}

impl Start<'_> {
    /// The hubs that a name stands for, each with the ways to it. A service record that nobody answers stands for one.
    async fn hubs(&self, name: &HubName) -> Vec<Vec<Way>> {
        match name {
            HubName::Endpoints(endpoints) => {
                vec![join_all(endpoints.iter().map(|endpoint| self.endpoint(endpoint))).await]
            }
            HubName::Srv(name) => {
                let lookup = Arc::new(SrvLookup::new(name.clone(), self.dns));
                let targets = tokio::time::timeout(PATIENCE, lookup.targets()).await.unwrap_or(1).max(1);
                let target = |place| self.named(Name::Target(Arc::clone(&lookup), place));
                join_all((0..targets).map(target)).await.into_iter().map(|named| vec![Way::Named(named)]).collect()
            }
        }
    }

    async fn endpoint(&self, endpoint: &Endpoint) -> Way {
        let hosts: Option<Vec<IpAddr>> = endpoint.hosts.iter().map(|host| host.parse().ok()).collect();
        match hosts {
            Some(hosts) => Way::Literal(Address { scheme: endpoint.scheme, port: endpoint.port, hosts }),
            None => Way::Named(self.named(Name::Endpoint(endpoint.clone())).await),
        }
    }

    async fn named(&self, name: Name) -> NamedHub {
        let latest = name.resolve_in_time().await.unwrap_or_else(|error| {
            tracing::warn!(%error, "the name does not resolve; each dial tries again");
            Vec::new()
        });
        let told = if latest.is_empty() {
            vec![name.placeholder(self.placeholders.fetch_add(1, Ordering::Relaxed))]
        } else {
            without_own(latest.clone(), self.listening)
        };
        NamedHub { name, told, latest: Mutex::new(latest) }
    }

    /// True if the configuration names this daemon itself.
    fn is_itself(&self, hub: &[Way]) -> bool {
        let is_own = |way: &Way| match way {
            Way::Literal(address) => is_own_address(std::slice::from_ref(address), self.listening),
            Way::Named(_) => false,
        };
        hub.iter().any(is_own) || hub.iter().all(|way| way.addresses().is_empty())
    }
}

fn without_own(mut addresses: Vec<Address>, listening: &[Address]) -> Vec<Address> {
    addresses.retain(|address| !is_own_address(std::slice::from_ref(address), listening));
    addresses
}

impl EndpointResolver {
    /// The addresses of the hubs in each list for the machine, or placeholders. Hubs that are this daemon, which
    /// listens at `listening`, are left out. Waits twice [`PATIENCE`] at most, and only if a host is a name.
    pub async fn resolve<const N: usize>(
        lists: [&[HubName]; N],
        listening: &[Address],
    ) -> (Self, [Vec<Vec<Address>>; N]) {
        Self::resolve_with(Dns::System, lists, listening).await
    }

    pub(super) async fn resolve_with<const N: usize>(
        dns: Dns,
        lists: [&[HubName]; N],
        listening: &[Address],
    ) -> (Self, [Vec<Vec<Address>>; N]) {
        let start = Start { dns, listening, placeholders: AtomicU32::new(1) };
        let mut hubs = join_all(lists.iter().flat_map(|list| list.iter()).map(|hub| start.hubs(hub))).await.into_iter();
        let mut resolver = Self { names: Vec::new(), listening: listening.to_vec() };
        let resolved = lists.map(|list| {
            let hubs = hubs.by_ref().take(list.len()).flatten().filter(|hub| !start.is_itself(hub));
            hubs.map(|hub| resolver.adopt(hub)).collect()
        });
        (resolver, resolved)
    }

    /// Remembers the names of a hub and returns its addresses.
    fn adopt(&mut self, hub: Vec<Way>) -> Vec<Address> {
        let addresses = hub.iter().flat_map(|way| way.addresses().to_vec()).collect();
        self.names.extend(hub.into_iter().filter_map(|way| match way {
            Way::Named(named) => Some(Arc::new(named)),
            Way::Literal(_) => None,
        }));
        addresses
    }

    /// True if a name stands for some of the addresses.
    pub fn concerns(&self, addresses: &[Address]) -> bool {
        addresses.iter().any(|address| self.find(address, addresses).is_some())
    }

    /// The addresses, with the present addresses of names. If the resolver fails, the latest ones are used.
    ///
    /// # Errors
    /// Fails if no address is left.
    pub async fn refresh(&self, addresses: Vec<Address>) -> Result<Vec<Address>, ResolveError> {
        let (mut fresh, mut asked, mut failure) = (Vec::new(), Vec::<&NamedHub>::new(), None);
        for address in &addresses {
            let Some(named) = self.find(address, &addresses) else {
                fresh.push(address.clone());
                continue;
            };
            if asked.iter().any(|other| std::ptr::eq(*other, named)) {
                continue;
            }
            asked.push(named);
            match named.look_up().await.map(|found| without_own(found, &self.listening)) {
                Ok(found) if found.is_empty() => {
                    let reason = "it leads to this daemon alone".to_owned();
                    failure = Some(ResolveError { name: named.name.text(), reason });
                }
                Ok(found) => fresh.extend(found),
                Err(error) => failure = Some(error),
            }
        }
        failure.filter(|_| fresh.is_empty()).map_or(Ok(fresh), Err)
    }

    /// The name in the configuration for an address; the address itself if it has no name.
    pub fn name(&self, address: &Address) -> String {
        let named = self.names.iter().find(|named| named.told.contains(address));
        named.map_or_else(|| address.to_string(), |named| named.name.text())
    }

    /// The name that an address belongs to, if all addresses of the name are among those dialed: a single one may be
    /// that of one of several hubs that the name stands for.
    fn find(&self, address: &Address, dialed: &[Address]) -> Option<&NamedHub> {
        let is_dialed = |named: &NamedHub| named.told.iter().all(|told| dialed.contains(told));
        let names = self.names.iter().map(Arc::as_ref);
        names.into_iter().find(|named| named.told.contains(address) && is_dialed(named))
    }
}

#[cfg(test)]
mod tests {
    use roost_wire::Scheme;

    use super::*;

    fn hub(text: &str) -> HubName {
        text.parse().unwrap()
    }

    async fn resolved(hubs: &[HubName]) -> (EndpointResolver, Vec<Vec<Address>>) {
        let (resolver, [hubs]) = EndpointResolver::resolve([hubs], &[]).await;
        (resolver, hubs)
    }

    fn address(text: &str) -> Address {
        let HubName::Endpoints(endpoints) = hub(text) else { panic!("{text}") };
        let Endpoint { scheme, port, hosts, .. } = endpoints[0].clone();
        Address { scheme, port, hosts: hosts.iter().map(|host| host.parse().unwrap()).collect() }
    }

    #[tokio::test]
    async fn addresses_need_no_resolver() {
        let (redial, hubs) = resolved(&[hub("udp://[::1]:9,tcp://127.0.0.1:9")]).await;
        assert_eq!(hubs[0].iter().map(ToString::to_string).collect::<Vec<_>>(), ["udp://[::1]:9", "tcp://127.0.0.1:9"]);
        assert!(!redial.concerns(&hubs[0]));
    }

    #[tokio::test]
    async fn name_is_resolved_at_each_dial() {
        let (redial, hubs) = resolved(&[hub("udp://localhost:9,tcp://localhost:9")]).await;
        assert!(redial.concerns(&hubs[0]));
        assert_eq!(redial.refresh(hubs[0].clone()).await, Ok(hubs[0].clone()));
        let udp_only: Vec<Address> = hubs[0].iter().filter(|address| address.scheme == Scheme::Udp).cloned().collect();
        assert_eq!(redial.refresh(udp_only.clone()).await, Ok(udp_only));
        assert_eq!(redial.name(&hubs[0][0]), "udp://localhost:9");
    }

    #[tokio::test]
    async fn unresolved_name_gets_placeholder_address() {
        // Longer than a label may be: no resolver is asked.
        let names = ["a", "b"].map(|letter| format!("udp://{}:9", letter.repeat(64)));
        let (redial, hubs) = resolved(&[hub(&names[0]), hub(&format!("{},udp://127.0.0.1:9", names[1]))]).await;
        assert_ne!(hubs[0][0], hubs[1][0]);
        assert_eq!([redial.name(&hubs[0][0]), redial.name(&hubs[1][0])], names);
        let error = redial.refresh(hubs[0].clone()).await.unwrap_err().to_string();
        assert!(error.contains(&names[0]), "{error}");
        let rest = redial.refresh(hubs[1].clone()).await.unwrap();
        assert_eq!(rest, hubs[1][1..], "the hub is still reached where it has an address");
    }

    /// A name that stands for these addresses.
    fn shared(addresses: &[Address], listening: &[Address]) -> EndpointResolver {
        let HubName::Endpoints(endpoints) = hub("udp://localhost:9") else { unreachable!() };
        let name = Name::Endpoint(endpoints[0].clone());
        let named =
            NamedHub { name, told: without_own(addresses.to_vec(), listening), latest: Mutex::new(addresses.to_vec()) };
        EndpointResolver { names: vec![Arc::new(named)], listening: listening.to_vec() }
    }

    #[tokio::test]
    async fn one_hub_of_shared_name_is_dialed_alone() {
        let hubs = ["udp://192.0.2.1:9", "udp://192.0.2.2:9"].map(address);
        let redial = shared(&hubs, &[]);
        assert!(redial.concerns(&hubs) && !redial.concerns(&hubs[1..]));
        assert_eq!(redial.refresh(hubs[1..].to_vec()).await, Ok(hubs[1..].to_vec()));
        assert_eq!(redial.name(&hubs[1]), "udp://localhost:9");
    }

    #[tokio::test]
    async fn hubs_share_a_name() {
        let listening = ["udp://127.0.0.1:9", "udp://[::1]:9"].map(address);
        let (_, [siblings]) = EndpointResolver::resolve([&[hub("udp://localhost:9")]], &listening).await;
        assert!(siblings.is_empty(), "the only hub of that name is this one: {siblings:?}");
        let own = address("udp://192.0.2.1:9");
        let other = address("udp://192.0.2.2:9");
        let redial = shared(&[own.clone(), other.clone()], &[own]);
        assert!(redial.concerns(&[other]));
    }

    #[tokio::test]
    async fn lists_keep_apart() {
        let lists = [&[hub("udp://127.0.0.1:8")][..], &[hub("udp://127.0.0.1:9"), hub("tcp://127.0.0.1:9")]];
        let (_, [parents, siblings]) = EndpointResolver::resolve(lists, &[address("tcp://127.0.0.1:9")]).await;
        assert_eq!(
            (parents, siblings),
            (vec![vec![address("udp://127.0.0.1:8")]], vec![vec![address("udp://127.0.0.1:9")]])
        );
    }
}
