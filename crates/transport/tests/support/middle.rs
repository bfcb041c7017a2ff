//! Whatever is between a node and a hub of `udp://` or `quic://`: addresses change in it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use roost_proto::Address;
use tokio::net::UdpSocket;
use tokio::sync::{mpsc, oneshot};

use super::Node;

/// The first byte of the datagrams that are not DTLS.
pub(crate) const UNKNOWN: u8 = 3;
pub(crate) const MOVED: u8 = 4;
/// An answer of a handshake that is not encrypted, after what it echoes.
pub(crate) const ECHO: u8 = 6;
/// A message of DTLS's handshake that is not encrypted.
pub(crate) const HANDSHAKE: u8 = 22;
/// Records of application data; bits of the sequence number do not show here.
pub(crate) const RECORD: u8 = 0x2f;

/// Which way a datagram goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To {
    Node,
    Hub,
}

/// What happens to a middle.
pub(crate) enum NatCommand {
    /// The hub sees the node at another port, and the former one is dead.
    MoveNode,
    /// The same once so many datagrams have come to the node.
    MoveNodeAfter(usize),
    /// What the node sends from now on does not arrive yet.
    HoldNode,
    /// What was held arrives, from the node's port of then.
    Release,
    /// The node sees the hub at another port, and the former one is dead.
    MoveHub,
    /// Somebody sends this with the sender's address forged.
    Forge(To, Vec<u8>),
}

/// What has passed, and which way.
type Seen = Arc<Mutex<Vec<(To, Vec<u8>)>>>;

/// A NAT between a node and a hub that writes down what passes.
pub(crate) struct Middle {
    /// Where it is found in the hub's place.
    pub(crate) at: Address,
    seen: Seen,
    orders: mpsc::UnboundedSender<(NatCommand, oneshot::Sender<()>)>,
}

impl Middle {
    /// Between a hub and whoever dials [`Self::at`].
    pub(crate) async fn before(hub: &Node) -> Self {
        let near = socket().await;
        let at = Address::single(hub.address().scheme, near.local_addr().expect("its address"));
        let (orders, ordered) = mpsc::unbounded_channel();
        let seen = Seen::default();
        tokio::spawn(carry(near, hub.address(), Arc::clone(&seen), ordered));
        Self { at, seen, orders }
    }

    /// Moves one side, and forgets what has passed before.
    pub(crate) async fn order(&self, order: NatCommand) {
        self.forget();
        self.send(order).await;
    }

    /// Forgets what has passed.
    pub(crate) fn forget(&self) {
        self.seen.lock().expect("no panic").clear();
    }

    /// Has a datagram pass that none of the two has sent.
    pub(crate) async fn forge(&self, to: To, datagram: Vec<u8>) {
        self.send(NatCommand::Forge(to, datagram)).await;
    }

    async fn send(&self, order: NatCommand) {
        let (done, when_done) = oneshot::channel();
        self.orders.send((order, done)).expect("it runs");
        when_done.await.expect("it runs");
    }

    /// What has passed in one direction since the last order.
    pub(crate) fn passed(&self, to: To) -> Vec<Vec<u8>> {
        let seen = self.seen.lock().expect("no panic");
        seen.iter().filter(|(way, _)| *way == to).map(|(_, datagram)| datagram.clone()).collect()
    }

    /// How many datagrams that begin so have passed.
    pub(crate) fn count(&self, to: To, first: u8) -> usize {
        self.passed(to).iter().filter(|datagram| datagram[0] == first).count()
    }

    /// How many of a handshake.
    pub(crate) fn handshakes(&self) -> usize {
        self.count(To::Hub, HANDSHAKE) + self.count(To::Node, ECHO)
    }

    /// Waits until something has passed.
    pub(crate) async fn until(&self, to: To, first: u8) -> Vec<u8> {
        let passed = async {
            loop {
                if let Some(datagram) = self.passed(to).into_iter().find(|datagram| datagram[0] == first) {
                    return datagram;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), passed).await.expect("it passes")
    }
}

async fn socket() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").await.expect("a socket")
}

pub(crate) async fn towards(hub: &Address) -> UdpSocket {
    let socket = socket().await;
    socket.connect(hub.primary().expect("a host")).await.expect("a route");
    socket
}

async fn carry(
    mut near: UdpSocket,
    hub: Address,
    seen: Seen,
    mut orders: mpsc::UnboundedReceiver<(NatCommand, oneshot::Sender<()>)>,
) {
    let mut far = towards(&hub).await;
    let (mut there, mut here) = ([0; 2000], [0; 2000]);
    let (mut node, mut until_moved) = (None, usize::MAX);
    // Whether datagrams are held, and from where they are to come.
    let (mut holds, mut held) = (false, Vec::<Vec<u8>>::new());
    let mut former = None;
    loop {
        // An error tells of an address that was there before.
        let (to, datagram) = tokio::select! {
            Ok((len, from)) = near.recv_from(&mut there) => {
                node = Some(from);
                (To::Hub, there[..len].to_vec())
            }
            Ok(len) = far.recv(&mut here) => {
                until_moved = until_moved.saturating_sub(1);
                if until_moved == 0 {
                    until_moved = usize::MAX;
                    far = towards(&hub).await;
                }
                (To::Node, here[..len].to_vec())
            }
            order = orders.recv() => {
                let Some((order, done)) = order else { return };
                let forged = match order {
                    NatCommand::MoveNode => {
                        former = Some(std::mem::replace(&mut far, towards(&hub).await));
                        holds = false;
                        None
                    }
                    NatCommand::HoldNode => {
                        holds = true;
                        None
                    }
                    NatCommand::Release => {
                        let from = former.as_ref().expect("the node has moved");
                        for late in held.drain(..) {
                            from.send(&late).await.expect("room");
                        }
                        None
                    }
                    NatCommand::MoveNodeAfter(count) => {
                        until_moved = count;
                        None
                    }
                    NatCommand::MoveHub => {
                        near = socket().await;
                        None
                    }
                    NatCommand::Forge(to, datagram) => Some((to, datagram)),
                };
                let _ = done.send(());
                let Some(forged) = forged else { continue };
                forged
            }
            else => continue,
        };
        seen.lock().expect("no panic").push((to, datagram.clone()));
        let _ = match (to, node) {
            (To::Hub, _) if holds => {
                held.push(datagram);
                continue;
            }
            (To::Hub, _) => far.send(&datagram).await,
            (To::Node, Some(node)) => near.send_to(&datagram, node).await,
            (To::Node, None) => continue,
        };
    }
}
