//! The counts of a gateway since its start, for people and for scripts.

use std::collections::BTreeMap;

use crate::framing::Framing;
use crate::outgoing::Outgoing;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub connections: usize,
    pub contacts: usize,
    /// Nodes, cameras and targets that TAK is shown.
    pub marks: usize,
    pub sent: u64,
    pub sent_bytes: u64,
    /// News that stood in for older news, as the rate allowed no more.
    pub replaced: u64,
    /// Nodes and targets that are too many to show.
    pub not_shown: u64,
    pub received: u64,
    pub records: u64,
    /// Events that were not taken, by reason.
    pub refused: BTreeMap<&'static str, u64>,
}

impl Totals {
    pub(crate) fn close(&mut self, outgoing: &Outgoing, framing: Option<&Framing>) {
        self.replaced += outgoing.replaced();
        self.not_shown += outgoing.refused();
        let too_long = framing.map_or(0, Framing::too_long);
        if too_long > 0 {
            *self.refused.entry("too_long").or_default() += too_long;
        }
    }
}
