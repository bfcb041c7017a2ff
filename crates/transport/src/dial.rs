//! Trying the addresses of a peer in turn.

use std::net::SocketAddr;
use std::sync::Arc;

use roost_proto::machine::Peer;
use roost_proto::{Address, DialId, NodeId, RoleSet, Scheme};
use tokio::sync::oneshot;

use crate::event::{Event, tells_refusal};
use crate::transport::Shared;
use crate::udp::Dialling;

/// The most addresses that one dial tries.
const MAX_ADDRESSES: usize = 16;

/// Whom a dial looks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pub(crate) dial: DialId,
    /// As what the peer must be certified.
    pub(crate) expect: RoleSet,
    /// Who it must be.
    pub(crate) node: Option<NodeId>,
}

/// What to say of a peer that is not the node that was wanted.
pub(crate) fn unexpected(peer: &Peer) -> String {
    format!("the peer is not the node that was expected but {} ({})", peer.name, peer.node)
}

/// Tries the addresses in turn. The transport that succeeds announces the link.
pub(crate) async fn dial(shared: Arc<Shared>, wish: Wish, addresses: Vec<Address>) {
    let mut failures = Failures::default();
    let mut refused = false;
    for address in addresses.iter().take(MAX_ADDRESSES) {
        match try_address(&shared, wish, address).await {
            Ok(()) => return,
            Err(why) => {
                refused |= tells_refusal(&why);
                failures.note(address, why);
            }
        }
    }
    let reason = failures.sentence();
    tracing::debug!(dial = wish.dial.0, reason, "dial failed");
    shared.context.queue.push(Event::DialFailed { dial: wish.dial, reason, refused });
}

/// Tries the hosts of one address in turn; the last one's failure is the answer.
async fn try_address(shared: &Shared, wish: Wish, address: &Address) -> Result<(), String> {
    let mut outcome = Err("the address names no host".to_owned());
    for host in &address.hosts {
        let to = SocketAddr::new(*host, address.port);
        outcome = match address.scheme {
            Scheme::Udp => try_udp(shared, wish, to).await,
            Scheme::Tcp => shared.tcp.dial(to, wish).await,
            Scheme::Quic => shared.quic.dial(to, wish).await,
        };
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

async fn try_udp(shared: &Shared, wish: Wish, to: SocketAddr) -> Result<(), String> {
    let (done, outcome) = oneshot::channel();
    shared.udp.dial(to, Dialling { dial: wish.dial, expect: wish.expect, node: wish.node, done });
    outcome.await.unwrap_or_else(|_| Err("the attempt was abandoned".into()))
}

/// Why each address failed, those that failed for the same reason together.
#[derive(Default)]
struct Failures(Vec<(String, String)>);

impl Failures {
    fn note(&mut self, address: &Address, why: String) {
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
    use super::*;

    #[test]
    fn a_reason_is_said_once_for_all_addresses_that_share_it() {
        let mut failures = Failures::default();
        assert_eq!(failures.sentence(), "there is no address to dial");
        for (scheme, port, why) in [(Scheme::Udp, 1, "no"), (Scheme::Tcp, 1, "late"), (Scheme::Udp, 2, "no")] {
            let hosts = vec![[10, 0, 0, 1].into()];
            failures.note(&Address { scheme, hosts, port }, why.to_owned());
        }
        assert_eq!(failures.sentence(), "udp://10.0.0.1:1, udp://10.0.0.1:2: no; tcp://10.0.0.1:1: late");
    }
}
