//! Wire form of membership messages.
//!
//! Both ends of a connection know each other, so a message names neither. The receiver puts the
//! sender's id and host in front ([`SENDER_BYTES`]) before it decodes.

use std::net::IpAddr;

use bytes::{Buf, BufMut};
use foca::{Codec, Header, Message, State};
use minicbor::encode::Write;
use minicbor::{Decoder, Encoder};
use roost_wire::messages::{WireError, read_addresses};
use roost_wire::{Address, NodeId};

use super::identity::MemberIdentity;
use crate::address_filter;

/// Bytes in front of a received message: the sender's id and the host where it is seen.
pub(super) const SENDER_BYTES: usize = 16 + 16;

/// Most addresses of a member.
pub(super) const MAX_ADDRESSES: usize = 4;

/// Prefix of a message from `sender`, seen at the host `seen`.
pub(super) fn sender(sender: NodeId, seen: IpAddr) -> [u8; SENDER_BYTES] {
    let host = match seen {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    let mut front = [0; SENDER_BYTES];
    front[..16].copy_from_slice(sender.as_bytes());
    front[16..].copy_from_slice(&host.octets());
    front
}

/// Codec of the hub `own` in a tier.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) own: NodeId,
    pub(super) tier: u8,
    /// Host of the message's sender, set before the members that follow are read.
    pub(super) seen: Option<IpAddr>,
}

type EncodeError = minicbor::encode::Error<std::convert::Infallible>;

impl Wire {
    /// A member's addresses that are of use here: of one that is seen on
    /// another machine, only those that mean the same everywhere.
    fn usable(&self, addresses: Vec<Address>) -> Vec<Address> {
        let Some(seen) = self.seen else { return addresses };
        let told = address_filter::filter_reported(addresses, seen);
        let here = seen.to_canonical().is_loopback();
        if here { told } else { told.into_iter().filter_map(Address::without_local_hosts).collect() }
    }

    fn addresses(&self, d: &mut Decoder<'_>, seen: Option<IpAddr>) -> Result<Vec<Address>, WireError> {
        let addresses = read_addresses(d).map_err(malformed)?;
        if addresses.len() > MAX_ADDRESSES {
            return Err(WireError::OutOfBounds("too many addresses of a super node"));
        }
        let resolved = addresses.into_iter().map(|address| match seen {
            Some(seen) => address.with_observed_host(seen),
            None => address,
        });
        Ok(self.usable(resolved.collect()))
    }

    fn header(&mut self, front: &[u8], d: &mut Decoder<'_>) -> Result<Header<MemberIdentity>, WireError> {
        let (id, host) = front.split_at(16);
        let node = NodeId::from_bytes(id.try_into().unwrap_or_default());
        self.seen = <[u8; 16]>::try_from(host).ok().map(|host| IpAddr::from(host).to_canonical());
        if d.u8().map_err(malformed)? != self.tier {
            return Err(WireError::OutOfBounds("a super node of another tier"));
        }
        let generation = d.u32().map_err(malformed)?;
        let src_incarnation = d.u16().map_err(malformed)?;
        let addresses = self.addresses(d, self.seen)?;
        let dst = MemberIdentity::named(self.own, d.u32().map_err(malformed)?);
        let message = message(d)?;
        Ok(Header { src: MemberIdentity { node, generation, addresses }, src_incarnation, dst, message })
    }

    fn member(&self, d: &mut Decoder<'_>) -> Result<foca::Member<MemberIdentity>, WireError> {
        let mut id = named(d)?;
        let incarnation = d.u16().map_err(malformed)?;
        let state = match d.u8().map_err(malformed)? {
            0 => State::Alive,
            1 => State::Suspect,
            2 => State::Down,
            _ => return Err(WireError::OutOfBounds("a super node neither alive nor dead")),
        };
        id.addresses = self.addresses(d, None)?;
        Ok(foca::Member::new(id, incarnation, state))
    }
}

fn malformed(error: minicbor::decode::Error) -> WireError {
    WireError::Malformed(error.to_string())
}

fn named(d: &mut Decoder<'_>) -> Result<MemberIdentity, WireError> {
    let node: NodeId = d.decode().map_err(malformed)?;
    Ok(MemberIdentity::named(node, d.u32().map_err(malformed)?))
}

fn message(d: &mut Decoder<'_>) -> Result<Message<MemberIdentity>, WireError> {
    let kind = d.u8().map_err(malformed)?;
    let probe_number = if kind <= 5 { d.u8().map_err(malformed)? } else { 0 };
    Ok(match kind {
        0 => Message::Ping(probe_number),
        1 => Message::Ack(probe_number),
        2 => Message::PingReq { target: named(d)?, probe_number },
        3 => Message::IndirectPing { origin: named(d)?, probe_number },
        4 => Message::IndirectAck { target: named(d)?, probe_number },
        5 => Message::ForwardedAck { origin: named(d)?, probe_number },
        6 => Message::Announce,
        7 => Message::Feed,
        8 => Message::Gossip,
        9 => Message::Broadcast,
        10 => Message::TurnUndead,
        _ => return Err(WireError::OutOfBounds("an unknown membership message")),
    })
}

fn put_message<W: Write>(
    e: &mut Encoder<W>,
    message: &Message<MemberIdentity>,
) -> Result<(), minicbor::encode::Error<W::Error>> {
    let (kind, probe_number, third) = match message {
        Message::Ping(number) => (0, Some(*number), None),
        Message::Ack(number) => (1, Some(*number), None),
        Message::PingReq { target, probe_number } => (2, Some(*probe_number), Some(target)),
        Message::IndirectPing { origin, probe_number } => (3, Some(*probe_number), Some(origin)),
        Message::IndirectAck { target, probe_number } => (4, Some(*probe_number), Some(target)),
        Message::ForwardedAck { origin, probe_number } => (5, Some(*probe_number), Some(origin)),
        Message::Announce => (6, None, None),
        Message::Feed => (7, None, None),
        Message::Gossip => (8, None, None),
        Message::Broadcast => (9, None, None),
        Message::TurnUndead => (10, None, None),
    };
    e.u8(kind)?;
    if let Some(number) = probe_number {
        e.u8(number)?;
    }
    if let Some(third) = third {
        e.encode(third.node)?.u32(third.generation)?;
    }
    Ok(())
}

fn put_header(header: &Header<MemberIdentity>, tier: u8) -> Result<Vec<u8>, EncodeError> {
    let mut bytes = vec![0; SENDER_BYTES];
    let mut e = Encoder::new(&mut bytes);
    e.u8(tier)?.u32(header.src.generation)?.u16(header.src_incarnation)?;
    e.encode(&header.src.addresses)?.u32(header.dst.generation)?;
    put_message(&mut e, &header.message)?;
    Ok(bytes)
}

fn put_member(member: &foca::Member<MemberIdentity>) -> Result<Vec<u8>, EncodeError> {
    let state = match member.state() {
        State::Alive => 0,
        State::Suspect => 1,
        State::Down => 2,
    };
    let mut bytes = Vec::with_capacity(64);
    let mut e = Encoder::new(&mut bytes);
    let id = member.id();
    e.encode(id.node)?.u32(id.generation)?.u16(member.incarnation())?.u8(state)?.encode(&id.addresses)?;
    Ok(bytes)
}

/// Writes all or nothing.
fn put(bytes: Result<Vec<u8>, EncodeError>, mut buf: impl BufMut) -> Result<(), WireError> {
    let bytes = bytes.map_err(|error| WireError::Malformed(error.to_string()))?;
    if bytes.len() > buf.remaining_mut() {
        return Err(WireError::OutOfBounds("no room for one more super node"));
    }
    buf.put_slice(&bytes);
    Ok(())
}

impl Codec<MemberIdentity> for Wire {
    type Error = WireError;

    fn encode_header(&mut self, header: &Header<MemberIdentity>, buf: impl BufMut) -> Result<(), WireError> {
        put(put_header(header, self.tier), buf)
    }

    fn decode_header(&mut self, mut buf: impl Buf) -> Result<Header<MemberIdentity>, WireError> {
        let (front, rest) =
            buf.chunk().split_at_checked(SENDER_BYTES).ok_or(WireError::OutOfBounds("a message without a sender"))?;
        let mut d = Decoder::new(rest);
        let header = self.header(front, &mut d)?;
        let read = SENDER_BYTES + d.position();
        buf.advance(read);
        Ok(header)
    }

    fn encode_member(&mut self, member: &foca::Member<MemberIdentity>, buf: impl BufMut) -> Result<(), WireError> {
        put(put_member(member), buf)
    }

    fn decode_member(&mut self, mut buf: impl Buf) -> Result<foca::Member<MemberIdentity>, WireError> {
        let mut d = Decoder::new(buf.chunk());
        let member = self.member(&mut d)?;
        let read = d.position();
        buf.advance(read);
        Ok(member)
    }
}
