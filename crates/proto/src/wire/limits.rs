//! What the fields of a message may say.

use bytes::Bytes;

use super::lookup::Candidate;
use super::push::MAX_OBJECT_NAME_BYTES;
use super::reflection::MAX_SEALED_BYTES;
use super::replication::{MAX_REPLICA_CHANGES, MAX_REPLICA_NODES, MAX_REPLICA_RECORDS, ReplicaUpdate};
use super::request::{FlowDescription, Request};
use super::service_request::InvalidRequest;
use super::trace::{HopReport, MAX_NAME_BYTES, MAX_TRACED_HOPS};
use super::{MAX_CANDIDATES, MAX_GOSSIP_BYTES, Message, WireError};
use crate::address::Address;
use crate::node_selector::is_node_name;
use crate::record::{MAX_ADDRESSES, Record};
use crate::room::MAX_MEMBERS;

/// The longest media type.
const MAX_FORMAT_BYTES: usize = 256;

/// The longest object that travels in an acceptance; providers put shorter ones there.
const MAX_INLINE_BYTES: usize = 4 * 1024;

impl Message {
    /// Whether every field is within its limits.
    pub(super) fn check_limits(&self) -> Result<(), WireError> {
        match self {
            Self::Publish(record) => {
                check_bound(record.cell.is_on_grid(), "a cell off the grid")?;
                check_bound(record.addresses.len() <= MAX_ADDRESSES, "too many addresses")
            }
            Self::Lease { siblings, addresses, .. } => {
                let count = |list: &Option<Vec<Address>>| list.as_ref().map_or(0, Vec::len);
                check_bound(count(siblings) <= MAX_CANDIDATES, "too many siblings")?;
                check_bound(count(addresses) <= MAX_ADDRESSES, "too many addresses")
            }
            Self::Request(request) => check_request(request),
            Self::Accept(accept) => {
                check_bound(accept.cell.is_on_grid(), "a cell off the grid")?;
                check_flow(&accept.flow)
            }
            Self::Pending { provider: Some(provider), .. } => {
                check_bound(provider.addresses.len() <= MAX_ADDRESSES, "too many addresses")
            }
            Self::LookupResult(found) => {
                check_bound(found.candidates.len() <= MAX_CANDIDATES, "too many candidates")?;
                check_candidates(&found.candidates)
            }
            Self::Gossip(bytes) => check_bound(bytes.len() <= MAX_GOSSIP_BYTES, "too long a membership message"),
            Self::Redirect(addresses) => {
                check_bound((1..=MAX_ADDRESSES).contains(&addresses.len()), "a redirect to no address or to too many")
            }
            Self::Watch(watch) => check_bound(watch.area.is_valid(), "an area off the grid"),
            Self::WatchChange(change) => check_candidates(&change.updated),
            Self::ReplicaUpdate(update) => check_replica_update(update),
            Self::ResyncRequest(retell) => {
                check_bound(retell.nodes.len() <= MAX_REPLICA_CHANGES, "too many records wanted")
            }
            Self::HubLookup(seek) => check_bound(seek.area.is_valid(), "an area off the grid"),
            Self::MulticastRequest(inquiry) => check_request(&inquiry.request),
            Self::MulticastCandidate(present) => check_candidates(std::slice::from_ref(&present.candidate)),
            Self::SetStandby { addresses, .. } => {
                let count = addresses.as_ref().map_or(0, Vec::len);
                check_bound(count <= MAX_ADDRESSES, "too many addresses")
            }
            Self::Push(push) => {
                check_bound(push.name.len() <= MAX_OBJECT_NAME_BYTES, "too long a name")?;
                check_bound(push.addresses.len() <= MAX_ADDRESSES, "too many addresses")
            }
            Self::JoinRoom(join) => check_bound(join.member.cell.is_on_grid(), "a cell off the grid"),
            Self::Roster(roster) => {
                check_bound(roster.members.len() <= MAX_MEMBERS, "too many members")?;
                check_bound(roster.members.iter().all(|member| member.cell.is_on_grid()), "a cell off the grid")
            }
            Self::SealedKeys(keys) => check_bound(keys.sealed.len() <= MAX_SEALED_BYTES, "too long a sealed key"),
            Self::HomeChanged(moved) => check_bound(moved.cell.is_on_grid(), "a cell off the grid"),
            Self::HopReport(HopReport { hop, .. }) => {
                let name = hop.name.as_ref().map_or(0, String::len);
                check_bound(name <= MAX_NAME_BYTES, "too long a name")?;
                check_bound((1..=MAX_TRACED_HOPS).contains(&hop.index), "too long a way")
            }
            _ => Ok(()),
        }
    }
}

fn check_bound(holds: bool, what: &'static str) -> Result<(), WireError> {
    if holds { Ok(()) } else { Err(WireError::OutOfBounds(what)) }
}

fn check_flow(flow: &FlowDescription) -> Result<(), WireError> {
    let (format, inline) = match flow {
        FlowDescription::Stream { format, .. } => (format, 0),
        FlowDescription::Object { format, inline, .. } => (format, inline.as_ref().map_or(0, Bytes::len)),
    };
    check_bound(format.len() <= MAX_FORMAT_BYTES, "too long a format")?;
    check_bound(inline <= MAX_INLINE_BYTES, "too long an object for an acceptance")
}

fn check_request(request: &Request) -> Result<(), WireError> {
    request.spec.check().map_err(|InvalidRequest(why)| WireError::OutOfBounds(why))?;
    check_bound(request.reply_to().len() <= MAX_ADDRESSES, "too many addresses")?;
    check_bound(request.hop().is_none_or(|hop| hop.cell.is_on_grid()), "a cell off the grid")?;
    check_bound(request.copy_target.is_none_or(|target| target.to.port() != 0), "a stream to no port")
}

fn check_replica_update(update: &ReplicaUpdate) -> Result<(), WireError> {
    let ReplicaUpdate { moves: shifts, removed: gone, capacities: left, records, alive: heard, .. } = update;
    let sound = |record: &Record| record.cell.is_on_grid() && record.addresses.len() <= MAX_ADDRESSES;
    check_bound(records.len() <= MAX_REPLICA_RECORDS, "too many records")?;
    check_bound(records.iter().all(|numbered| sound(&numbered.record)), "a record off the grid")?;
    check_bound(shifts.len().max(gone.len()).max(left.len()) <= MAX_REPLICA_CHANGES, "too many changes")?;
    check_bound(shifts.iter().all(|shift| shift.versions > 0), "a move without a new version")?;
    let numbers = records.iter().map(|numbered| numbered.node).max();
    check_bound(numbers.is_none_or(|most| most < MAX_REPLICA_NODES), "too great a number for a node")?;
    let signs = heard.as_ref().map_or(0, Bytes::len);
    check_bound(signs * 8 <= MAX_REPLICA_NODES as usize, "signs of life of too many nodes")
}

fn check_candidates(candidates: &[Candidate]) -> Result<(), WireError> {
    let sound = |candidate: &Candidate| candidate.cell.is_on_grid() && candidate.addresses.len() <= MAX_ADDRESSES;
    check_bound(candidates.iter().all(sound), "a candidate off the grid")?;
    let named = |candidate: &Candidate| candidate.name.as_deref().is_none_or(is_node_name);
    check_bound(candidates.iter().all(named), "a name that no certificate has")
}
