//! Hubs by a service record of the DNS (RFC 2782). The system's resolver asks for addresses alone.

use std::io;
use std::time::Duration;

use domain::base::iana::Rtype;
use domain::base::name::{Name, ToName as _};
use domain::rdata::Srv;
use domain::resolv::StubResolver;
use roost_wire::random::SplitMix64;
use roost_wire::{Address, Scheme, SrvName};
use tokio::sync::Mutex;

use super::ResolveError;
use crate::clock::{Clock, SystemClock};

const MAX_TARGETS: usize = 8;

const MAX_ADDRESSES: usize = 4;

/// The shortest and the longest time for which an answer holds: one of no time would be asked for at each dial.
const SHORTEST_TTL: Duration = Duration::from_secs(1);
const LONGEST_TTL: Duration = Duration::from_secs(24 * 3600);

#[derive(Clone, Copy, Debug)]
pub(super) enum Dns {
    /// Servers of `/etc/resolv.conf`, which is read for each question: a moving host has others later.
    System,
    #[cfg(test)]
    At(std::net::SocketAddr),
}

/// The targets of a service record, asked for again when the answer is too old.
#[derive(Debug)]
pub(super) struct SrvLookup {
    name: SrvName,
    dns: Dns,
    clock: Box<dyn Clock>,
    answer: Mutex<Option<Answer>>,
}

#[derive(Debug)]
struct Answer {
    /// The addresses of each target, in the order in which the targets are tried.
    targets: Vec<Vec<Address>>,
    /// By the clock that goes on in suspend.
    valid_until: Duration,
}

impl SrvLookup {
    pub(super) fn new(name: SrvName, dns: Dns) -> Self {
        Self { name, dns, clock: Box::new(SystemClock), answer: Mutex::new(None) }
    }

    pub(super) fn name(&self) -> &SrvName {
        &self.name
    }

    /// The number of targets; 0 if nobody tells them.
    pub(super) async fn targets(&self) -> usize {
        let mut answer = self.answer.lock().await;
        self.current(&mut answer).await.map_or(0, |answer| answer.targets.len())
    }

    /// The addresses of the target at this place.
    pub(super) async fn target(&self, place: usize) -> Result<Vec<Address>, ResolveError> {
        let mut answer = self.answer.lock().await;
        let targets = &self.current(&mut answer).await?.targets;
        match targets.get(place) {
            Some(addresses) if addresses.is_empty() => Err(self.wrong("the target has no address")),
            Some(addresses) => Ok(addresses.clone()),
            None => Err(self.wrong(format!("it has only {} targets now", targets.len()))),
        }
    }

    async fn current<'a>(&self, answer: &'a mut Option<Answer>) -> Result<&'a Answer, ResolveError> {
        let is_old = answer.as_ref().is_none_or(|answer| answer.valid_until <= self.clock.passed());
        let fresh = if is_old { Some(self.ask().await?) } else { None };
        if fresh.is_some() {
            *answer = fresh;
        }
        answer.as_ref().ok_or_else(|| self.wrong("there is no answer"))
    }

    async fn ask(&self) -> Result<Answer, ResolveError> {
        let seed = crate::random_seed().map_err(|error| self.wrong(error))?;
        let resolver = self.dns.resolver();
        let (records, ttl) = ask(&resolver, &self.name.name).await.map_err(|error| self.wrong(error))?;
        let mut targets = Vec::new();
        for record in order(records, &mut SplitMix64::new(seed)).into_iter().take(MAX_TARGETS) {
            targets.push(addresses(&resolver, &record, self.name.scheme).await);
        }
        if targets.is_empty() {
            return Err(self.wrong("it names no target"));
        }
        Ok(Answer { targets, valid_until: self.clock.passed() + ttl.clamp(SHORTEST_TTL, LONGEST_TTL) })
    }

    fn wrong(&self, reason: impl ToString) -> ResolveError {
        ResolveError { name: self.name.to_string(), reason: reason.to_string() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Target {
    /// Targets of the lowest number are tried first.
    priority: u16,
    /// The share of the tries among those of the same priority.
    weight: u16,
    port: u16,
    host: Name<Vec<u8>>,
}

/// The targets of a service record, and the time for which they hold. A target without a name stands for none.
async fn ask(resolver: &StubResolver, name: &str) -> io::Result<(Vec<Target>, Duration)> {
    let name: Name<Vec<u8>> = name.parse().map_err(io::Error::other)?;
    let answer = resolver.query((name, Rtype::SRV)).await?.into_message();
    let (mut targets, mut ttl) = (Vec::new(), LONGEST_TTL);
    for record in answer.answer().map_err(io::Error::other)?.limit_to_in::<Srv<_>>().flatten() {
        let srv = record.data();
        ttl = ttl.min(record.ttl().into_duration());
        let host: Name<Vec<u8>> = srv.target().to_name();
        if !host.is_root() {
            targets.push(Target { priority: srv.priority(), weight: srv.weight(), port: srv.port(), host });
        }
    }
    Ok((targets, ttl))
}

async fn addresses(resolver: &StubResolver, target: &Target, scheme: Scheme) -> Vec<Address> {
    match resolver.lookup_host(&target.host).await {
        Ok(found) => {
            let ips = super::alternate(found.iter().collect()).into_iter().take(MAX_ADDRESSES);
            ips.map(|ip| Address { scheme, port: target.port, hosts: vec![ip] }).collect()
        }
        Err(error) => {
            tracing::warn!(host = %target.host, %error, "a target of a service record does not resolve");
            Vec::new()
        }
    }
}

/// The targets by their priority; among those of one priority each by chance as often as its weight says.
fn order(mut targets: Vec<Target>, random: &mut SplitMix64) -> Vec<Target> {
    // Targets without weight stand first, so that chance rarely picks them.
    targets.sort_by_key(|target| (target.priority, target.weight));
    let mut ordered = Vec::with_capacity(targets.len());
    while let Some(priority) = targets.first().map(|target| target.priority) {
        let mut sum = 0;
        let group = targets.iter().take_while(|target| target.priority == priority);
        let sums: Vec<u64> = group
            .map(|target| {
                sum += u64::from(target.weight);
                sum
            })
            .collect();
        let drawn = random.below(sum + 1);
        let place = sums.iter().position(|sum| *sum >= drawn).unwrap_or_default();
        ordered.push(targets.remove(place));
    }
    ordered
}

impl Dns {
    fn resolver(self) -> StubResolver {
        match self {
            Self::System => StubResolver::new(),
            #[cfg(test)]
            Self::At(server) => tests::resolver_at(server),
        }
    }
}

#[cfg(test)]
mod tests;
