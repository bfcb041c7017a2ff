//! Hubs by a service record of the DNS (RFC 2782). The system's resolver asks for addresses alone.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use domain::base::iana::Rtype;
use domain::base::name::{Name, ToName as _};
use domain::rdata::Srv;
use domain::resolv::StubResolver;
use roost_wire::random::SplitMix64;
use roost_wire::{Address, SrvName, is_destination};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::ResolveError;
use crate::clock::{Clock, SystemClock};

const MAX_TARGETS: usize = 8;

const MAX_ADDRESSES: usize = 4;

/// The longest wait for the addresses of one target: a name server that is silent about it holds up no other target.
const TARGET_PATIENCE: Duration = Duration::from_secs(2);

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
    /// In the order in which the targets are tried.
    targets: Vec<Target>,
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

    /// The addresses of the target at this place. The name server is asked without the lock: it may be silent about one
    /// target and know the others.
    pub(super) async fn target(&self, place: usize) -> Result<Vec<Address>, ResolveError> {
        let mut answer = self.answer.lock().await;
        let targets = &self.current(&mut answer).await?.targets;
        let few = || self.wrong(format!("it has only {} targets now", targets.len()));
        let target = targets.get(place).cloned().ok_or_else(few)?;
        drop(answer);
        let found = timeout(TARGET_PATIENCE, self.dns.resolver().lookup_host(&target.host)).await;
        let reason = match found {
            Ok(Ok(found)) => match target.dialable(found.iter()) {
                ips if ips.is_empty() => "no address that can be dialed".to_owned(),
                ips => return Ok(ips.into_iter().map(|ip| self.address(&target, ip)).collect()),
            },
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the name server is silent".to_owned(),
        };
        Err(self.wrong(format!("its target {}: {reason}", target.host)))
    }

    fn address(&self, target: &Target, ip: IpAddr) -> Address {
        Address { scheme: self.name.scheme, port: target.port, hosts: vec![ip] }
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
        let mut targets = order(records, &mut SplitMix64::new(seed));
        targets.truncate(MAX_TARGETS);
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

impl Target {
    /// The addresses that lead to a single host; those of this host only for the name that says so.
    fn dialable(&self, ips: impl Iterator<Item = IpAddr>) -> Vec<IpAddr> {
        let here = self.host.to_string().eq_ignore_ascii_case("localhost");
        let mut ips = super::alternate(ips.filter(|ip| is_destination(*ip, here)).collect());
        ips.truncate(MAX_ADDRESSES);
        ips
    }
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
        if srv.port() == 0 && !host.is_root() {
            tracing::warn!(%host, "a target of a service record has the port 0: it is left out");
        } else if !host.is_root() {
            targets.push(Target { priority: srv.priority(), weight: srv.weight(), port: srv.port(), host });
        }
    }
    Ok((targets, ttl))
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
