//! A NAT between a node and a hub of `udp://` or `quic://`, whose addresses change.

use std::sync::{Arc, Mutex};

use roost_wait::eventually;
use roost_wire::Address;
use tokio::net::UdpSocket;
use tokio::sync::{mpsc, oneshot};

use super::{Node, PATIENCE};

/// The first byte of the datagrams that are not DTLS.
pub(crate) const UNKNOWN: u8 = 3;
pub(crate) const MOVED: u8 = 4;
/// An unencrypted answer of a handshake, after its echo.
pub(crate) const ECHO: u8 = 6;
/// An unencrypted message of DTLS's handshake.
pub(crate) const HANDSHAKE: u8 = 22;
/// Records of application data, whose sequence number does not change this byte.
pub(crate) const RECORD: u8 = 0x2f;

/// The direction of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To {
    Node,
    Hub,
}

pub(crate) enum NatCommand {
    /// The hub sees the node at another port, and the former one is dead.
    MoveNode,
    /// As [`Self::MoveNode`], after this many datagrams have arrived at the node.
    MoveNodeAfter(usize),
    /// Datagrams of the node are held from now on.
    HoldNode,
    /// The held datagrams arrive, from the node's former port.
    Release,
    /// The node sees the hub at another port, and the former one is dead.
    MoveHub,
    /// A datagram with a forged sender's address is sent.
    Forge(To, Vec<u8>),
}

/// The datagrams that have passed, with their direction.
type Seen = Arc<Mutex<Vec<(To, Vec<u8>)>>>;

/// A NAT between a node and a hub that records the datagrams.
pub(crate) struct Middle {
    /// The address at which it is dialed in place of the hub.
    pub(crate) at: Address,
    seen: Seen,
    orders: mpsc::UnboundedSender<(NatCommand, oneshot::Sender<()>)>,
}

impl Middle {
    /// Makes a NAT between a hub and the node that dials [`Self::at`].
    pub(crate) async fn before(hub: &Node) -> Self {
        let near = socket().await;
        let at = Address::single(hub.address().scheme, near.local_addr().expect("its address"));
        let (orders, ordered) = mpsc::unbounded_channel();
        let seen = Seen::default();
        tokio::spawn(carry(near, hub.address(), Arc::clone(&seen), ordered));
        Self { at, seen, orders }
    }

    /// Carries out a command, and forgets the datagrams that passed before.
    pub(crate) async fn order(&self, order: NatCommand) {
        self.forget();
        self.send(order).await;
    }

    pub(crate) fn forget(&self) {
        self.seen.lock().expect("no panic").clear();
    }

    /// Makes a datagram arrive that neither side has sent.
    pub(crate) async fn forge(&self, to: To, datagram: Vec<u8>) {
        self.send(NatCommand::Forge(to, datagram)).await;
    }

    async fn send(&self, order: NatCommand) {
        let (done, when_done) = oneshot::channel();
        self.orders.send((order, done)).expect("it runs");
        when_done.await.expect("it runs");
    }

    /// The datagrams that passed in one direction since the last command.
    pub(crate) fn passed(&self, to: To) -> Vec<Vec<u8>> {
        let seen = self.seen.lock().expect("no panic");
        seen.iter().filter(|(way, _)| *way == to).map(|(_, datagram)| datagram.clone()).collect()
    }

    /// The number of datagrams with this first byte that have passed.
    pub(crate) fn count(&self, to: To, first: u8) -> usize {
        self.passed(to).iter().filter(|datagram| datagram[0] == first).count()
    }

    /// The number of datagrams of a handshake that have passed.
    pub(crate) fn handshakes(&self) -> usize {
        self.count(To::Hub, HANDSHAKE) + self.count(To::Node, ECHO)
    }

    /// Waits for a datagram with this first byte.
    pub(crate) async fn until(&self, to: To, first: u8) -> Vec<u8> {
        let passed = || self.passed(to).into_iter().find(|datagram| datagram[0] == first);
        eventually(PATIENCE, passed).await.expect("it passes")
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
    // The datagrams of the node that are held, if they are.
    let (mut holds, mut held) = (false, Vec::<Vec<u8>>::new());
    let mut former = None;
    loop {
        // An error concerns an address that was there before.
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
