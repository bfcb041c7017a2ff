//! The assumptions of the model, which no text prescribes.

use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DhtSettings {
    /// Contacts in a bucket, and as many spare ones that replace those that fall silent.
    pub bucket: usize,
    /// Questions on their way at once while a search is outside of its area.
    pub parallel: usize,
    /// Such questions to nodes inside of the area, each of which must answer for itself.
    pub parallel_inside: usize,
    /// The least number of nodes nearest to the area that a search asks.
    pub near: usize,
    /// Such a number for a search that only refreshes a bucket.
    pub near_of_refresh: usize,
    /// The most contacts in an answer: with its headers it fits into a packet of 1200 bytes.
    pub answer: usize,
    /// The time after which a question counts as lost, and its receiver as gone.
    pub timeout: Duration,
    /// The time after which a search ends with what it has.
    pub patience: Duration,
    pub refresh: Duration,
    /// Such a pause until a new node has refreshed each bucket once.
    pub first_refresh: Duration,
    /// The silence after which a full bucket probes its oldest contact for the sake of a new one.
    pub stale: Duration,
}

impl Default for DhtSettings {
    fn default() -> Self {
        Self {
            bucket: 4,
            parallel: 3,
            parallel_inside: 16,
            near: 4,
            near_of_refresh: 2,
            answer: 64,
            timeout: Duration::from_millis(500),
            patience: Duration::from_secs(20),
            refresh: Duration::from_secs(10),
            first_refresh: Duration::from_secs(1),
            stale: Duration::from_secs(60),
        }
    }
}
