//! Trying the addresses of a peer in turn.

use std::fmt::Write;
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
    let mut reason = String::new();
    let mut refused = false;
    for address in addresses.iter().take(MAX_ADDRESSES) {
        match try_address(&shared, wish, address).await {
            Ok(()) => return,
            Err(why) => {
                refused |= tells_refusal(&why);
                let comma = if reason.is_empty() { "" } else { "; " };
                // Writing to a string does not fail.
                let _ = write!(reason, "{comma}{address}: {why}");
            }
        }
    }
    if reason.is_empty() {
        reason = "there is no address to dial".to_owned();
    }
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
