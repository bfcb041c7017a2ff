//! The multicast group of a team, to which each member sends its events.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use bytes::Bytes;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;

use super::{Input, Inputs, OUTLET};
use crate::contacts::ConnectionId;
use crate::gateway::Carriage;

const MAX_DATAGRAM_BYTES: usize = 65_535;
/// Teams span some routers that pass multicast on.
const TTL: u32 = 32;

/// A socket that has joined a group, and the group.
pub(super) struct Joined {
    socket: UdpSocket,
    group: SocketAddrV4,
}

pub(super) fn join(group: SocketAddrV4, interface: Option<Ipv4Addr>) -> std::io::Result<Joined> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    // Other programs on this machine listen to the group, too.
    socket.set_reuse_address(true)?;
    socket.bind(&SocketAddr::from(group).into())?;
    socket.join_multicast_v4(group.ip(), &interface.unwrap_or(Ipv4Addr::UNSPECIFIED))?;
    if let Some(interface) = &interface {
        socket.set_multicast_if_v4(interface)?;
    }
    socket.set_multicast_ttl_v4(TTL)?;
    // TAK on this machine is to hear the gateway; what comes back to itself is dropped by its uid.
    socket.set_multicast_loop_v4(true)?;
    Ok(Joined { socket: UdpSocket::from_std(socket.into())?, group })
}

/// Tells the machine of the group, and passes datagrams until an error. Returns the reason.
pub(super) async fn run(id: ConnectionId, name: String, joined: Joined, inputs: &Inputs) -> String {
    let (outlet, events) = mpsc::channel(OUTLET);
    if inputs.send(Input::Up { id, name, carriage: Carriage::Datagrams, outlet }).await.is_err() {
        return "the gateway ends".to_owned();
    }
    tokio::select! {
        reason = read(id, &joined.socket, inputs) => reason,
        reason = write(&joined, events, inputs) => reason,
    }
}

async fn read(id: ConnectionId, socket: &UdpSocket, inputs: &Inputs) -> String {
    let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
    loop {
        let (length, from) = match socket.recv_from(&mut buffer).await {
            Ok(received) => received,
            Err(error) => return error.to_string(),
        };
        let bytes = Bytes::copy_from_slice(&buffer[..length]);
        if inputs.send(Input::Received { id, address: Some(from.ip()), bytes }).await.is_err() {
            return "the gateway ends".to_owned();
        }
    }
}

async fn write(joined: &Joined, mut events: mpsc::Receiver<Bytes>, inputs: &Inputs) -> String {
    while let Some(event) = events.recv().await {
        if let Err(error) = joined.socket.send_to(&event, joined.group).await {
            return error.to_string();
        }
        if inputs.send(Input::Written).await.is_err() {
            break;
        }
    }
    "the gateway ends".to_owned()
}
