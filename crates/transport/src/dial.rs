//! Tries the addresses of a remote, the preferred one first.
//!
//! An address that does not answer must not hold up one that would. So the attempts overlap as in RFC 8305, section 5:
//! the next begins after a delay without success, or at once when one has failed. The first success wins.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use roost_wire::{Address, DialId, NodeId, RemoteIdentity, RoleSet, Scheme};
use tokio::sync::oneshot;

use crate::event::{Event, EventSource, tells_refusal};
use crate::transport::Shared;
use crate::udp::PendingDial;

/// The most addresses that one dial tries: those of a name, over each transport. The rest are ignored.
const MAX_ADDRESSES: usize = 24;

/// The time for which an address is tried alone before the next one, unless it fails sooner: the delay that RFC 8305
/// recommends.
const HEAD_START: Duration = Duration::from_millis(250);

/// The remote that a dial must reach.
#[derive(Clone, Debug)]
pub(crate) struct DialRequest {
    pub(crate) dial: DialId,
    /// The remote must be certified for one of these roles.
    pub(crate) expect: RoleSet,
    /// The remote must be this node; `None` if any will do.
    pub(crate) node: Option<NodeId>,
    /// True once one of the attempts has won.
    won: Arc<AtomicBool>,
}

impl DialRequest {
    pub(crate) fn new(dial: DialId, expect: RoleSet, node: Option<NodeId>) -> Self {
        Self { dial, expect, node, won: Arc::default() }
    }

    /// Makes the calling attempt the winner; false if another has won. Only the winner announces a connection.
    pub(crate) fn try_win(&self) -> bool {
        !self.won.swap(true, Ordering::Relaxed)
    }

    /// True if an attempt has won, so that the others can stop.
    pub(crate) fn is_won(&self) -> bool {
        self.won.load(Ordering::Relaxed)
    }
}

/// The error of an attempt that succeeds after another has won.
pub(crate) const TOO_LATE: &str = "another address was quicker";

/// The error of an attempt that reached a node other than the expected one.
pub(crate) fn unexpected(remote: &RemoteIdentity) -> String {
    format!("the remote is not the expected node but {} ({})", remote.name, remote.node)
}

/// Tries the addresses, each with a head start on the next. The transport that succeeds announces the connection.
pub(crate) async fn dial(shared: Arc<Shared>, request: DialRequest, addresses: Vec<Address>) {
    let addresses = &addresses[..addresses.len().min(MAX_ADDRESSES)];
    let outcome = race(
        addresses,
        |scheme, host| attempt(&shared, &request, addresses, scheme, host),
        || tokio::time::sleep(HEAD_START),
    );
    let Err(failures) = outcome.await else { return };
    let mut told = Failures::default();
    let mut refused = false;
    for (address, why) in addresses.iter().zip(failures) {
        refused |= tells_refusal(&why);
        told.add_failure(address, why);
    }
    let reason = told.sentence();
    tracing::debug!(dial = request.dial.0, reason, "dial failed");
    shared.context.queue.push(EventSource::Host, Event::DialFailed { dial: request.dial, reason, refused });
}

/// Runs the attempts until one succeeds, which drops the others. The next one begins when one has failed or
/// `head_start` is over. If none succeeds, the result has one error for each address: that of its host which failed
/// last.
async fn race<'a, F, P>(
    addresses: &[Address],
    attempt: impl Fn(Scheme, SocketAddr) -> F,
    head_start: impl Fn() -> P,
) -> Result<(), Vec<String>>
where
    F: Future<Output = Result<(), String>> + Send + 'a,
    P: Future<Output = ()>,
{
    let mut failures = vec!["the address names no host".to_owned(); addresses.len()];
    let mut targets = Vec::new();
    for (index, address) in addresses.iter().enumerate() {
        targets.extend(address.hosts.iter().map(|host| (index, address.scheme, SocketAddr::new(*host, address.port))));
    }
    let mut waiting = targets.into_iter();
    let mut running = FuturesUnordered::<Pin<Box<dyn Future<Output = (usize, Result<(), String>)> + Send + 'a>>>::new();
    loop {
        let more = waiting.next().map(|(index, scheme, host)| {
            let attempt = attempt(scheme, host);
            running.push(Box::pin(async move { (index, attempt.await) }));
        });
        if running.is_empty() {
            return Err(failures);
        }
        let ended = match more {
            Some(()) => tokio::select! {
                biased;
                ended = running.next() => ended,
                () = head_start() => None,
            },
            None => running.next().await,
        };
        match ended {
            Some((_, Ok(()))) => return Ok(()),
            Some((index, Err(why))) => failures[index] = why,
            None => {}
        }
    }
}

/// Tries one host. The transport limits the time by the expected round trip.
async fn attempt(
    shared: &Shared,
    request: &DialRequest,
    addresses: &[Address],
    scheme: Scheme,
    to: SocketAddr,
) -> Result<(), String> {
    match scheme {
        Scheme::Udp => try_udp(shared, request.clone(), to).await,
        Scheme::Tcp => shared.tcp.dial(to, request.clone()).await,
        Scheme::Quic => shared.quic.dial(to, &beside(addresses, to), request.clone()).await,
    }
}

/// All hosts of the QUIC address that contains this one.
fn beside(addresses: &[Address], to: SocketAddr) -> Vec<SocketAddr> {
    let hosts = |address: &Address| address.hosts.iter().map(|host| SocketAddr::new(*host, address.port)).collect();
    let of_quic = addresses.iter().filter(|address| address.scheme == Scheme::Quic).map(hosts);
    of_quic.into_iter().find(|hosts: &Vec<_>| hosts.contains(&to)).unwrap_or_default()
}

async fn try_udp(shared: &Shared, request: DialRequest, to: SocketAddr) -> Result<(), String> {
    let (done, outcome) = oneshot::channel();
    shared.udp.dial(to, PendingDial { request, done });
    outcome.await.unwrap_or_else(|_| Err("the attempt was abandoned".into()))
}

/// The errors of a dial. Addresses that failed for the same reason share a sentence.
#[derive(Default)]
struct Failures(Vec<(String, String)>);

impl Failures {
    fn add_failure(&mut self, address: &Address, why: String) {
        match self.0.iter_mut().find(|(_, reason)| *reason == why) {
            Some((addresses, _)) => *addresses += &format!(", {address}"),
            None => self.0.push((address.to_string(), why)),
        }
    }

    fn sentence(&self) -> String {
        if self.0.is_empty() {
            return "there is no address to dial".to_owned();
        }
        let parts: Vec<_> = self.0.iter().map(|(addresses, why)| format!("{addresses}: {why}")).collect();
        parts.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::sync::Mutex;

    use futures_util::FutureExt;

    use super::*;

    /// The outcome of an attempt; `None` if it stays silent.
    type Fate = Option<Result<(), &'static str>>;

    const SILENT: Fate = None;
    const GOOD: Fate = Some(Ok(()));

    fn address(number: usize) -> Address {
        Address::single(Scheme::Udp, SocketAddr::from(([10, 0, 0, 1], number as u16)))
    }

    /// Races addresses with these outcomes. Returns the result, if the race ended, and the addresses that were tried.
    /// The head starts are over at once or never.
    fn run(fates: &[Fate], over: bool) -> (Option<Result<(), Vec<String>>>, Vec<u16>) {
        let addresses: Vec<_> = (0..fates.len()).map(address).collect();
        let tried = Mutex::new(Vec::new());
        let attempt = |_: Scheme, host: SocketAddr| {
            tried.lock().unwrap().push(host.port());
            let fate = fates[usize::from(host.port())];
            async move {
                match fate {
                    Some(fate) => fate.map_err(str::to_owned),
                    None => pending().await,
                }
            }
        };
        let head_start = || async move { if over { ready(()).await } else { pending().await } };
        let outcome = race(&addresses, attempt, head_start).now_or_never();
        (outcome, tried.into_inner().unwrap())
    }

    #[test]
    fn shared_reason_is_reported_once() {
        let mut failures = Failures::default();
        assert_eq!(failures.sentence(), "there is no address to dial");
        for (scheme, port, why) in [(Scheme::Udp, 1, "no"), (Scheme::Tcp, 1, "late"), (Scheme::Udp, 2, "no")] {
            let hosts = vec![[10, 0, 0, 1].into()];
            failures.add_failure(&Address { scheme, hosts, port }, why.to_owned());
        }
        assert_eq!(failures.sentence(), "udp://10.0.0.1:1, udp://10.0.0.1:2: no; tcp://10.0.0.1:1: late");
    }

    #[test]
    fn silent_address_does_not_delay_next() {
        assert_eq!(run(&[SILENT, SILENT, GOOD], true), (Some(Ok(())), vec![0, 1, 2]));
        // The silent address still has its head start.
        assert_eq!(run(&[SILENT, GOOD], false), (None, vec![0]));
    }

    #[test]
    fn a_failure_hands_on_at_once() {
        assert_eq!(run(&[Some(Err("closed")), GOOD], false), (Some(Ok(())), vec![0, 1]));
    }

    #[test]
    fn answering_preferred_address_suffices() {
        assert_eq!(run(&[GOOD, GOOD], true), (Some(Ok(())), vec![0]));
    }

    #[test]
    fn when_all_fail_each_says_why() {
        let fates = ["silence", "closed", "no route"].map(|why| Some(Err(why)));
        let failures = ["silence", "closed", "no route"].map(str::to_owned);
        assert_eq!(run(&fates, true).0, Some(Err(failures.to_vec())));
        assert_eq!(run(&[], false).0, Some(Err(Vec::new())));
        // The race waits for a silent address to the end.
        assert_eq!(run(&[SILENT, Some(Err("closed"))], true), (None, vec![0, 1]));
    }

    #[test]
    fn one_attempt_of_a_dial_wins() {
        let request = DialRequest::new(DialId(1), RoleSet::ALL, None);
        let other = request.clone();
        assert!(!other.is_won() && request.try_win());
        assert!(other.is_won() && !other.try_win());
    }
}
