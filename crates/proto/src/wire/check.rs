//! What the fields of a message may say.

use bytes::Bytes;

use super::lookup::Candidate;
use super::push::MAX_OBJECT_NAME_BYTES;
use super::reflect::MAX_SEALED_BYTES;
use super::request::{Offer, Params};
use super::standby::{MAX_CHANGES, MAX_MIRRORED, MAX_NUMBERED, Mirror};
use super::trace::{MAX_NAME_BYTES, MAX_TRACED_HOPS, Traced};
use super::{MAX_CANDIDATES, MAX_GOSSIP_BYTES, Message, WireError};
use crate::address::Address;
use crate::called::is_name;
use crate::record::{MAX_ADDRESSES, Record};
use crate::room::MAX_MEMBERS;

/// The longest media type.
const MAX_FORMAT_BYTES: usize = 256;

/// The longest object that travels in an acceptance; providers put shorter ones there.
const MAX_INLINE_BYTES: usize = 4 * 1024;

impl Message {
    /// Whether every field is within its limits.
    pub(super) fn check(&self) -> Result<(), WireError> {
        match self {
            Self::Publish(record) => {
                bounded(record.cell.is_on_grid(), "a cell off the grid")?;
                bounded(record.addresses.len() <= MAX_ADDRESSES, "too many addresses")
            }
            Self::Lease { siblings, addresses, .. } => {
                let count = |list: &Option<Vec<Address>>| list.as_ref().map_or(0, Vec::len);
                bounded(count(siblings) <= MAX_CANDIDATES, "too many siblings")?;
                bounded(count(addresses) <= MAX_ADDRESSES, "too many addresses")
            }
            Self::Request(request) => {
                bounded(request.area.is_valid(), "an area off the grid")?;
                check_params(request.params)
            }
            Self::Forward(forward) => {
                bounded(forward.reply_to.len() <= MAX_ADDRESSES, "too many addresses")?;
                check_params(forward.params)
            }
            Self::Accept(accept) => {
                bounded(accept.cell.is_on_grid(), "a cell off the grid")?;
                check_offer(&accept.offer)
            }
            Self::Pending { provider: Some(provider), .. } => {
                bounded(provider.addresses.len() <= MAX_ADDRESSES, "too many addresses")
            }
            Self::Found(found) => {
                bounded(found.candidates.len() <= MAX_CANDIDATES, "too many candidates")?;
                check_candidates(&found.candidates)
            }
            Self::Gossip(bytes) => bounded(bytes.len() <= MAX_GOSSIP_BYTES, "too long a word of membership"),
            Self::Redirect(addresses) => bounded(
                (1..=MAX_ADDRESSES).contains(&addresses.len()),
                "a redirection to nowhere or to too many places",
            ),
            Self::Watch(watch) => bounded(watch.area.is_valid(), "an area off the grid"),
            Self::Change(change) => check_candidates(&change.present),
            Self::Mirror(mirror) => check_mirror(mirror),
            Self::Retell(retell) => bounded(retell.nodes.len() <= MAX_CHANGES, "too many records wanted"),
            Self::Seek(seek) => bounded(seek.area.is_valid(), "an area off the grid"),
            Self::Inquiry(inquiry) => {
                bounded(inquiry.area.is_valid(), "an area off the grid")?;
                bounded(inquiry.reply_to.len() <= MAX_ADDRESSES, "too many addresses")
            }
            Self::Present(present) => check_candidates(std::slice::from_ref(&present.candidate)),
            Self::Carry(carry) => {
                bounded(carry.cell.is_on_grid(), "a cell off the grid")?;
                bounded(carry.reply_to.len() <= MAX_ADDRESSES, "too many addresses")?;
                check_params(carry.params)
            }
            Self::StandBy { addresses, .. } => {
                let count = addresses.as_ref().map_or(0, Vec::len);
                bounded(count <= MAX_ADDRESSES, "too many addresses")
            }
            Self::Push(push) => {
                bounded(push.name.len() <= MAX_OBJECT_NAME_BYTES, "too long a name")?;
                bounded(push.addresses.len() <= MAX_ADDRESSES, "too many addresses")
            }
            Self::Join(join) => bounded(join.member.cell.is_on_grid(), "a cell off the grid"),
            Self::Roster(roster) => {
                bounded(roster.members.len() <= MAX_MEMBERS, "too many members")?;
                bounded(roster.members.iter().all(|member| member.cell.is_on_grid()), "a cell off the grid")
            }
            Self::Keys(keys) => bounded(keys.sealed.len() <= MAX_SEALED_BYTES, "too long a sealed key"),
            Self::Moved(moved) => bounded(moved.cell.is_on_grid(), "a cell off the grid"),
            Self::Traced(Traced { hop, .. }) => {
                let name = hop.name.as_ref().map_or(0, String::len);
                bounded(name <= MAX_NAME_BYTES, "too long a name")?;
                bounded((1..=MAX_TRACED_HOPS).contains(&hop.number), "too long a way")
            }
            _ => Ok(()),
        }
    }
}

fn bounded(holds: bool, what: &'static str) -> Result<(), WireError> {
    if holds { Ok(()) } else { Err(WireError::OutOfBounds(what)) }
}

fn check_offer(offer: &Offer) -> Result<(), WireError> {
    let (format, inline) = match offer {
        Offer::Stream { format, .. } => (format, 0),
        Offer::Object { format, inline, .. } => (format, inline.as_ref().map_or(0, Bytes::len)),
    };
    bounded(format.len() <= MAX_FORMAT_BYTES, "too long a format")?;
    bounded(inline <= MAX_INLINE_BYTES, "too long an object for an acceptance")
}

fn check_params(params: Option<Params>) -> Result<(), WireError> {
    let nowhere = Params::reflect_of(params).is_some_and(|reflect| reflect.to.port() == 0);
    bounded(!nowhere, "a stream to no port")
}

fn check_mirror(mirror: &Mirror) -> Result<(), WireError> {
    let Mirror { shifts, gone, left, records, heard, .. } = mirror;
    let sound = |record: &Record| record.cell.is_on_grid() && record.addresses.len() <= MAX_ADDRESSES;
    bounded(records.len() <= MAX_MIRRORED, "too many records")?;
    bounded(records.iter().all(|numbered| sound(&numbered.record)), "a record off the grid")?;
    bounded(shifts.len().max(gone.len()).max(left.len()) <= MAX_CHANGES, "too many changes")?;
    bounded(shifts.iter().all(|shift| shift.versions > 0), "a move without a new version")?;
    let numbers = records.iter().map(|numbered| numbered.node).max();
    bounded(numbers.is_none_or(|most| most < MAX_NUMBERED), "too great a number for a node")?;
    let signs = heard.as_ref().map_or(0, Bytes::len);
    bounded(signs * 8 <= MAX_NUMBERED as usize, "signs of life of too many nodes")
}

fn check_candidates(candidates: &[Candidate]) -> Result<(), WireError> {
    let sound = |candidate: &Candidate| candidate.cell.is_on_grid() && candidate.addresses.len() <= MAX_ADDRESSES;
    bounded(candidates.iter().all(sound), "a candidate off the grid")?;
    let named = |candidate: &Candidate| candidate.name.as_deref().is_none_or(is_name);
    bounded(candidates.iter().all(named), "a name that no certificate has")
}
