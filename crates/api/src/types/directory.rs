//! Answers about nodes and their services: lookups, watches and a hub's index.

use std::collections::BTreeMap;

use roost_wire::{Capacity, Cell, NodeId, Offer, Service, Version, messages};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{IndexTotals, Position};
use crate::text;

/// `GET /v1/index`: the content of a hub's own directory.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Index {
    pub schema: u32,
    pub totals: IndexTotals,
    /// The nodes in the order of their ids, at most as many as the query allows; `after=ID` leads to the next ones.
    pub nodes: Vec<Candidate>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Lookup {
    pub schema: u32,
    /// The extent of the answer: `complete`, `first_match` (the first providers found in the cell; hubs that may know
    /// others were not waited for), `own` (only the directory of the hub that was asked, where there are others),
    /// `hub_starting` (a hub started less than a lease ago), `partial` (a hub did not answer in time, or only the
    /// multicast link was asked), `unreachable_above` (the super nodes above could not be asked).
    pub coverage: String,
    /// The providers, the best first.
    pub candidates: Vec<Candidate>,
    pub elapsed_ms: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Candidate {
    pub node: NodeId,
    pub cell: Cell,
    #[serde(with = "text::list")]
    #[schemars(with = "Vec<Service>")]
    pub services: Vec<Service>,
    /// The offers that tell more than their service: own services with their form, instances, rates, sizes, metadata.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offers: Vec<Offer>,
    /// Streams that the node could still start.
    pub streams_left: u16,
    /// Uplink not yet promised, kbit/s; null if the node has set no limit.
    pub uplink_left_kbps: Option<u32>,
    pub addresses: Vec<String>,
    /// The version of the node's record as `EPOCH.SEQUENCE`.
    pub record: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The place on the Earth; absent in a group without a datum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<EarthPlace>,
    /// The exact position, of a node in motion at the time of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
    /// Seconds until the lease ends if it is not renewed; in a hub's index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_s: Option<f64>,
    /// True while the record is held back until its node renews it; in a hub's index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<bool>,
    /// The node's home, if this hub is only the standby; in a hub's index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home: Option<NodeId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home_name: Option<String>,
    /// The hub that stands by for the node; in the index of its home.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standby: Option<NodeId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standby_name: Option<String>,
}

/// The place of a node on the Earth, by its exact position or else by the middle of its cell, and the way to it from the
/// place that a query names, or else from the node that answers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EarthPlace {
    pub lat: f64,
    pub lon: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance_m: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bearing_deg: Option<f64>,
}

impl From<&messages::Candidate> for Candidate {
    fn from(candidate: &messages::Candidate) -> Self {
        Self {
            node: candidate.node,
            cell: candidate.cell,
            services: candidate.services.iter().collect(),
            offers: candidate.services.offers().to_vec(),
            streams_left: candidate.capacity.streams,
            uplink_left_kbps: uplink_left(candidate.capacity),
            addresses: candidate.addresses.iter().map(ToString::to_string).collect(),
            record: record_text(candidate.version),
            name: candidate.name.clone(),
            place: None,
            position: candidate.position.map(Into::into),
            expires_in_s: None,
            suspended: None,
            home: None,
            home_name: None,
            standby: None,
            standby_name: None,
        }
    }
}

/// The uplink that is left, kbit/s, unless there is no limit: a node without a limit says `u32::MAX`, from which a hub
/// subtracts the promises since.
pub fn uplink_left(capacity: Capacity) -> Option<u32> {
    Some(capacity.uplink_kbps).filter(|kbps| *kbps <= u32::MAX / 2)
}

pub fn record_text(version: Version) -> String {
    format!("{}.{}", version.epoch, version.sequence)
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WatchEvent {
    pub schema: u32,
    /// Counts the changes from 1; a gap is a change that was lost.
    pub number: u64,
    /// Nodes that came, moved or changed.
    pub present: Vec<Candidate>,
    pub gone: Vec<NodeId>,
    /// Names of `gone`, by id.
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
