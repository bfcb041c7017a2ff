//! Counters of a hub.

use roost_wire::Service;
use roost_wire::messages::{Reason, RequestMode};

use super::HubLimit;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum RequestOutcome {
    /// Handed to a provider. If that comes to nothing, a refusal is counted too.
    Handed = 0,
    Found = 1,
    /// Nobody offers it there.
    NotFound = 2,
    /// The hub is too young to say.
    NotYetKnown = 3,
    /// Every provider is at its limit.
    Busy = 4,
    NoTransport = 5,
    /// Providers or other hubs could not be reached.
    Unreachable = 6,
    /// A limit of the requester's or of the hub.
    TooMany = 7,
    /// The deadline passed before there was an answer.
    TimedOut = 8,
    Leaving = 9,
    Declined = 10,
    /// The way to the hubs above is cut.
    UnreachableAbove = 11,
    /// A super node has no room to reflect it.
    Saturated = 12,
    /// The group's policy does not allow it.
    Forbidden = 13,
}

impl RequestOutcome {
    pub const ALL: [Self; 14] = [
        Self::Handed,
        Self::Found,
        Self::NotFound,
        Self::NotYetKnown,
        Self::Busy,
        Self::NoTransport,
        Self::Unreachable,
        Self::TooMany,
        Self::TimedOut,
        Self::Leaving,
        Self::Declined,
        Self::UnreachableAbove,
        Self::Saturated,
        Self::Forbidden,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Handed => "handed",
            Self::Found => "found",
            Self::NotFound => "not_found",
            Self::NotYetKnown => "not_yet_known",
            Self::Busy => "busy",
            Self::NoTransport => "no_transport",
            Self::Unreachable => "unreachable",
            Self::TooMany => "too_many",
            Self::TimedOut => "timed_out",
            Self::Leaving => "leaving",
            Self::Declined => "refused",
            Self::UnreachableAbove => "unreachable_above",
            Self::Saturated => "saturated",
            Self::Forbidden => "forbidden",
        }
    }
}

impl From<Reason> for RequestOutcome {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::NotFound => Self::NotFound,
            Reason::NotYetKnown => Self::NotYetKnown,
            Reason::Busy => Self::Busy,
            Reason::NoTransport => Self::NoTransport,
            Reason::Unreachable => Self::Unreachable,
            Reason::TooMany => Self::TooMany,
            Reason::TimedOut => Self::TimedOut,
            Reason::Leaving => Self::Leaving,
            Reason::UnreachableAbove => Self::UnreachableAbove,
            Reason::Saturated => Self::Saturated,
            Reason::Forbidden => Self::Forbidden,
            Reason::SourceFailed
            | Reason::NotAllowed
            | Reason::Cancelled
            | Reason::Protocol
            | Reason::Reflected
            | Reason::Unspecified
            | Reason::UnsupportedVersion
            | Reason::TooSlow
            | Reason::WrongBody => Self::Declined,
        }
    }
}

/// Events since the hub started, each counted once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HubCounters {
    requests: [[u64; 3]; Service::ROWS],
    outcomes: [[[u64; RequestOutcome::ALL.len()]; 3]; Service::ROWS],
    over_limit: [u64; HubLimit::ALL.len()],
    pub searches: u64,
    /// Records that were new or had changed.
    pub publishes: u64,
    /// Renewals of a held version.
    pub renews: u64,
    /// Renewals of a version that was not held, answered by `UnknownVersion`.
    pub unknown_renews: u64,
    pub withdrawals: u64,
    pub expiries: u64,
    /// Records that went because another hub holds a newer one.
    pub claimed: u64,
    /// Records refused because the directory was full.
    pub full: u64,
    /// Nodes of other hubs that made this one their home in one step.
    pub adoptions: u64,
    /// Messages to standbys.
    pub replica_updates_sent: u64,
    /// Nodes that were told to publish later, each time counted.
    pub postponed: u64,
    /// New nodes sent to another super node that has fewer.
    pub redirects: u64,
    /// Nodes sent to a super node that has joined.
    pub rebalanced: u64,
    /// Messages of membership sent to other super nodes.
    pub gossip_sent: u64,
    /// Size of these messages, bytes.
    pub gossip_bytes: u64,
    /// Messages that could not be read.
    pub malformed: u64,
    /// Messages of later versions, which were skipped.
    pub newer_version: u64,
    /// Messages and connections that the other end's role does not allow.
    pub refused_by_role: u64,
    /// Records of a node that another node tried to publish.
    pub foreign_records: u64,
    /// Services of records, watches, entries into rooms and relayed flows that the group's policy does not allow.
    pub forbidden: u64,
    /// Answers and data of flows that the hub does not know (any more).
    pub stray: u64,
    pub forwards: u64,
    /// Requests handed to the same provider again because the requester repeated them, and relayed ones to the same hub
    /// after its silence.
    pub repeats: u64,
    /// Providers held back because they stayed silent.
    pub suspensions: u64,
    /// Times that a provider was put behind the others because it did not serve.
    pub failures: u64,
    pub hub_lookups_sent: u64,
    /// Requests that joined a search already under way.
    pub hub_lookups_merged: u64,
    /// Searches that not all hubs answered in time.
    pub hub_lookups_partial: u64,
    /// Searches of other hubs that were answered.
    pub hub_lookups_answered: u64,
    /// Searches of other hubs of which yet another hub gets what there is.
    pub hub_lookups_omitted: u64,
    /// Requests passed on to another hub, each hub counted.
    pub requests_routed: u64,
    /// Requests of which a hub did not say in time that it has them.
    pub hop_timeouts: u64,
    /// Of a cache: lookups answered from what the server had told it before.
    pub cache_hits: u64,
    /// Requests answered by "there is none" from memory.
    pub negatives: u64,
    /// Summaries sent to parents and owners.
    pub summaries_sent: u64,
    /// Patches in them.
    pub block_services_sent: u64,
    /// Summaries heard from children and roots.
    pub summaries_heard: u64,
    pub relays: u64,
    pub relayed_messages: u64,
    /// Their bytes, encoded, counted once.
    pub relayed_bytes: u64,
    /// Flows that ended because their provider sent more than it may.
    pub overruns: u64,
    /// Copies of streams that the relay may send.
    pub grants: u64,
    /// Requests for a copy for which there was no room here.
    pub saturated: u64,
    /// Sealed keys of streams that were new here, from the provider or from the hub nearer to it.
    pub keys_stored: u64,
    /// Times that such keys were told to a requester or another hub.
    pub keys_handed: u64,
    /// Such keys that were forgotten: their time was over, or their stream is not carried any more.
    pub keys_expired: u64,
    /// Sealed files that the hub took for nodes.
    pub mailbox_kept: u64,
    /// Such files that their receivers took or refused.
    pub mailbox_delivered: u64,
    /// Such files that went to the receiver's home.
    pub mailbox_handed: u64,
    /// Such files whose end came while they were here.
    pub mailbox_expired: u64,
    pub changes: u64,
    /// Attempts to reach another hub or a provider.
    pub dials: u64,
}

impl HubCounters {
    pub fn requests(&self, service: Service, mode: RequestMode) -> u64 {
        self.requests[service.row()][mode_index(mode)]
    }

    /// Requests that ended, or went on, in this way.
    pub fn outcomes(&self, service: Service, mode: RequestMode, outcome: RequestOutcome) -> u64 {
        self.outcomes[service.row()][mode_index(mode)][outcome as usize]
    }

    /// Messages, connections and records declined or dropped because of this limit.
    pub fn over_limit(&self, limit: HubLimit) -> u64 {
        self.over_limit[limit as usize]
    }

    pub(super) fn count_over_limit(&mut self, limit: HubLimit) {
        self.over_limit[limit as usize] += 1;
    }

    pub(super) fn count_request(&mut self, service: Service, mode: RequestMode) {
        self.requests[service.row()][mode_index(mode)] += 1;
    }

    pub(super) fn count_outcome(&mut self, service: Service, mode: RequestMode, outcome: RequestOutcome) {
        self.outcomes[service.row()][mode_index(mode)][outcome as usize] += 1;
    }
}

const fn mode_index(mode: RequestMode) -> usize {
    match mode {
        RequestMode::Forward => 0,
        RequestMode::Relay => 1,
        RequestMode::Lookup => 2,
    }
}
