//! Who offers what: lookups, watches and a hub's index.

use std::collections::BTreeMap;

use roost_wire::{Capacity, Cell, NodeId, Service, Version, messages};
use serde::{Deserialize, Serialize};

use super::IndexTotals;
use crate::text;

/// `GET /v1/index`: what a hub's own directory holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Index {
    /// The version of this object, [`crate::SCHEMA`].
    pub schema: u32,
    /// The sums.
    pub totals: IndexTotals,
    /// The nodes in the order of their ids, at most as many as were asked for;
    /// `after=ID` leads to the next ones.
    pub nodes: Vec<Candidate>,
}

/// `POST /v1/lookup`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Lookup {
    /// The version of this object, [`crate::SCHEMA`].
    pub schema: u32,
    /// How far the answer reaches: `complete`, `first_match` (who was found first in the
    /// cell; hubs that may know others were not waited for), `own` (only the directory of the hub
    /// that was asked, where there are others), `hub_starting` (a hub started less than
    /// a lease ago), `partial` (a hub did not answer in time, or only the connection
    /// was asked), `unreachable_above` (the super nodes above could not be asked).
    pub coverage: String,
    /// Who offers it, the best first.
    pub candidates: Vec<Candidate>,
    /// How long the lookup took, milliseconds.
    pub elapsed_ms: f64,
}

/// One provider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Who.
    #[serde(with = "text")]
    pub node: NodeId,
    /// Where.
    #[serde(with = "text")]
    pub cell: Cell,
    /// What it offers.
    #[serde(with = "text::list")]
    pub services: Vec<Service>,
    /// Streams it could still start.
    pub streams_left: u16,
    /// Uplink not yet promised, kbit/s; null if the node has set no limit.
    pub uplink_left_kbps: Option<u32>,
    /// Where it can be dialled.
    pub addresses: Vec<String>,
    /// The version of its record as `EPOCH.SEQUENCE`.
    pub record: String,
    /// The name in its certificate, if it was asked for or is known anyway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// When its lease ends unless it is heard, seconds; in a hub's index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_s: Option<f64>,
    /// Whether it is held back until it speaks again; in a hub's index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<bool>,
    /// Its home, if this hub only stands by for it; in a hub's index.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    pub home: Option<NodeId>,
    /// The name in its home's certificate, if that is connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home_name: Option<String>,
}

impl From<&messages::Candidate> for Candidate {
    fn from(candidate: &messages::Candidate) -> Self {
        Self {
            node: candidate.node,
            cell: candidate.cell,
            services: candidate.services.iter().collect(),
            streams_left: candidate.capacity.streams,
            uplink_left_kbps: uplink_left(candidate.capacity),
            addresses: candidate.addresses.iter().map(ToString::to_string).collect(),
            record: record_text(candidate.version),
            name: candidate.name.clone(),
            expires_in_s: None,
            suspended: None,
            home: None,
            home_name: None,
        }
    }
}

/// The uplink that is left, kbit/s, unless there is no limit: a node without
/// one says `u32::MAX`, of which a hub takes off what it has promised since.
pub fn uplink_left(capacity: Capacity) -> Option<u32> {
    Some(capacity.uplink_kbps).filter(|kbps| *kbps <= u32::MAX / 2)
}

/// A record's version as this API writes it: `EPOCH.SEQUENCE`.
pub fn record_text(version: Version) -> String {
    format!("{}.{}", version.epoch, version.sequence)
}

/// One line of `GET /v1/watch`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WatchEvent {
    /// The version of this object, [`crate::SCHEMA`].
    pub schema: u32,
    /// Counts the changes from 1; a gap is a change that was lost.
    pub number: u64,
    /// Came, moved or changed.
    pub present: Vec<Candidate>,
    /// Gone from the area.
    #[serde(with = "text::list")]
    pub gone: Vec<NodeId>,
    /// The names of those who are gone, as far as they are known, by their ids.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub gone_names: BTreeMap<String, String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unlimited_uplink_stays_none() {
        let left = |uplink_kbps| uplink_left(Capacity { streams: 1, uplink_kbps });
        assert_eq!([left(u32::MAX), left(u32::MAX - 700), left(0), left(10_000)], [None, None, Some(0), Some(10_000)]);
    }
}
