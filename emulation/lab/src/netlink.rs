//! Requests to the kernel about interfaces, addresses and routes, many in one message.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{OwnedFd, RawFd};

use netlink_packet_core::{
    ErrorMessage, NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressMessage, AddressScope};
use netlink_packet_route::link::{InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage};
use netlink_packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rustix::net::{RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

/// Requests in one batch: the answers to more would not fit into the socket's buffer.
const BATCH: usize = 64;
/// Buffer for the answers of one read, bytes.
const ANSWER_BYTES: usize = 32 * 1024;

#[derive(Clone, Debug)]
pub enum NetlinkRequest {
    Up {
        index: u32,
    },
    /// Gives an interface its hardware address and queue, and switches it on.
    Ready {
        index: u32,
        mac: [u8; 6],
        /// Packets that the queue holds for a slow reader.
        queue_packets: u32,
    },
    /// Limits the segments of one message that an interface takes uncut; the kernel cuts longer ones.
    Segments {
        index: u32,
        /// The most segments, at most 65535.
        most: u32,
    },
    /// Makes a pair of interfaces, both down; the outer one is in another namespace.
    Pair {
        name: String,
        index: u32,
        outer_name: String,
        outer_index: u32,
        /// The namespace of the outer end; the descriptor must stay open until the request is applied.
        outer_namespace: RawFd,
    },
    Address {
        index: u32,
        address: Ipv4Addr,
        prefix: u8,
    },
    /// Routes packets for a subnet through an interface.
    Route {
        index: u32,
        destination: Ipv4Addr,
        prefix: u8,
        /// The gateway; `None` if the subnet is on the interface's own net.
        via: Option<Ipv4Addr>,
    },
    /// Adds a permanent entry with the hardware address of an adjacent host.
    Remote {
        index: u32,
        address: Ipv4Addr,
        mac: [u8; 6],
    },
}

impl fmt::Display for NetlinkRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Up { index } => write!(f, "switch on interface {index}"),
            Self::Ready { index, .. } => write!(f, "set up interface {index}"),
            Self::Segments { index, .. } => write!(f, "set the segments of interface {index}"),
            Self::Pair { name, .. } => write!(f, "make the interface {name}"),
            Self::Address { address, prefix, .. } => write!(f, "set the address {address}/{prefix}"),
            Self::Route { destination, prefix, via: Some(via), .. } => {
                write!(f, "set the route to {destination}/{prefix} through {via}")
            }
            Self::Route { destination, prefix, via: None, .. } => write!(f, "set the route to {destination}/{prefix}"),
            Self::Remote { address, .. } => write!(f, "set the neighbour {address}"),
        }
    }
}

/// A netlink socket in the network namespace in which it was opened.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

impl Netlink {
    pub fn open() -> io::Result<Self> {
        let socket = socket_with(rustix::net::AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Applies all requests in order, and waits for the end.
    ///
    /// # Errors
    /// The first refusal; later requests may have been applied.
    pub fn apply(&mut self, requests: &[NetlinkRequest]) -> io::Result<()> {
        requests.chunks(BATCH).try_for_each(|batch| self.apply_batch(batch))
    }

    fn apply_batch(&mut self, batch: &[NetlinkRequest]) -> io::Result<()> {
        let first = self.sequence.wrapping_add(1);
        let mut bytes = Vec::with_capacity(batch.len() * 128);
        for (place, request) in batch.iter().enumerate() {
            // The kernel always answers a refusal, and a success only on request: so the last one asks for an
            // answer.
            let ack = if place + 1 == batch.len() { NLM_F_ACK } else { 0 };
            self.append(&mut bytes, request.message(), NLM_F_REQUEST | request.flags() | ack);
        }
        send(&self.socket, &bytes, SendFlags::empty())?;
        self.wait(first, batch)
    }

    fn append(&mut self, bytes: &mut Vec<u8>, message: RouteNetlinkMessage, flags: u16) {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.sequence_number = self.sequence;
        header.flags = flags;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(message));
        message.finalize();
        let start = bytes.len();
        bytes.resize(start + message.buffer_len().next_multiple_of(4), 0);
        message.serialize(&mut bytes[start..]);
    }

    /// Reads the answers to a batch, up to that of its last request; returns the first error.
    fn wait(&self, first: u32, batch: &[NetlinkRequest]) -> io::Result<()> {
        let mut buffer = vec![0; ANSWER_BYTES];
        let mut outcome = Ok(());
        loop {
            let (length, _) = recv(&self.socket, &mut buffer[..], RecvFlags::empty())?;
            let mut rest = &buffer[..length];
            while !rest.is_empty() {
                let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest).map_err(io::Error::other)?;
                let place = answer.header.sequence_number.wrapping_sub(first) as usize;
                if let (NetlinkPayload::Error(error), Some(request)) = (&answer.payload, batch.get(place)) {
                    outcome = outcome.and_then(|()| result(request, error));
                    if place + 1 == batch.len() {
                        return outcome;
                    }
                }
                rest = rest.get((answer.header.length as usize).next_multiple_of(4)..).unwrap_or_default();
            }
        }
    }
}

fn result(request: &NetlinkRequest, answer: &ErrorMessage) -> io::Result<()> {
    match answer.code {
        None => Ok(()),
        Some(_) => Err(io::Error::new(answer.to_io().kind(), format!("{request}: {}", answer.to_io()))),
    }
}

impl NetlinkRequest {
    const fn flags(&self) -> u16 {
        match self {
            Self::Up { .. } | Self::Ready { .. } | Self::Segments { .. } => 0,
            _ => NLM_F_CREATE | NLM_F_EXCL,
        }
    }

    fn message(&self) -> RouteNetlinkMessage {
        match self {
            Self::Up { index } => RouteNetlinkMessage::SetLink(up(link(*index, Vec::new()))),
            Self::Ready { index, mac, queue_packets } => {
                let attributes = vec![LinkAttribute::Address(mac.to_vec()), LinkAttribute::TxQueueLen(*queue_packets)];
                RouteNetlinkMessage::SetLink(up(link(*index, attributes)))
            }
            Self::Segments { index, most } => {
                RouteNetlinkMessage::SetLink(link(*index, vec![LinkAttribute::GsoMaxSegs(*most)]))
            }
            Self::Pair { name, index, outer_name, outer_index, outer_namespace } => {
                let outer = vec![LinkAttribute::IfName(outer_name.clone()), LinkAttribute::NetNsFd(*outer_namespace)];
                let outer_end = InfoData::Veth(InfoVeth::Peer(link(*outer_index, outer)));
                let attributes = vec![
                    LinkAttribute::IfName(name.clone()),
                    LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Veth), LinkInfo::Data(outer_end)]),
                ];
                RouteNetlinkMessage::NewLink(link(*index, attributes))
            }
            Self::Address { index, address, prefix } => {
                RouteNetlinkMessage::NewAddress(address_message(*index, *address, *prefix))
            }
            Self::Route { index, destination, prefix, via } => {
                RouteNetlinkMessage::NewRoute(route_message(*index, *destination, *prefix, *via))
            }
            Self::Remote { index, address, mac } => {
                RouteNetlinkMessage::NewNeighbour(neighbour_message(*index, *address, *mac))
            }
        }
    }
}

fn link(index: u32, attributes: Vec<LinkAttribute>) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message.attributes = attributes;
    message
}

fn up(mut message: LinkMessage) -> LinkMessage {
    message.header.flags = LinkFlags::Up;
    message.header.change_mask = LinkFlags::Up;
    message
}

fn address_message(index: u32, address: Ipv4Addr, prefix: u8) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = AddressFamily::Inet;
    message.header.prefix_len = prefix;
    message.header.scope = AddressScope::Universe;
    message.header.index = index;
    message.attributes =
        vec![AddressAttribute::Local(IpAddr::V4(address)), AddressAttribute::Address(IpAddr::V4(address))];
    if prefix < 31 {
        let broadcast = Ipv4Addr::from_bits(address.to_bits() | (u32::MAX >> prefix));
        message.attributes.push(AddressAttribute::Broadcast(broadcast));
    }
    message
}

fn route_message(index: u32, destination: Ipv4Addr, prefix: u8, via: Option<Ipv4Addr>) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header = RouteHeader {
        address_family: AddressFamily::Inet,
        destination_prefix_length: prefix,
        table: RouteHeader::RT_TABLE_MAIN,
        protocol: RouteProtocol::Static,
        scope: if via.is_some() { RouteScope::Universe } else { RouteScope::Link },
        kind: RouteType::Unicast,
        ..RouteHeader::default()
    };
    message.attributes = vec![RouteAttribute::Oif(index)];
    if prefix > 0 {
        message.attributes.push(RouteAttribute::Destination(RouteAddress::Inet(destination)));
    }
    message.attributes.extend(via.map(|via| RouteAttribute::Gateway(RouteAddress::Inet(via))));
    message
}

fn neighbour_message(index: u32, address: Ipv4Addr, mac: [u8; 6]) -> NeighbourMessage {
    let mut message = NeighbourMessage::default();
    message.header.family = AddressFamily::Inet;
    message.header.ifindex = index;
    message.header.state = NeighbourState::Permanent;
    message.attributes = vec![
        NeighbourAttribute::Destination(NeighbourAddress::Inet(address)),
        NeighbourAttribute::LinkLayerAddress(mac.to_vec()),
    ];
    message
}
