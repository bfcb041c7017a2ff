//! The place and the way of a node, as others were told of them.

use roost_geo::{Datum, Track};
use roost_wire::{ExactPosition, Time};

/// The way of the node as others know it.
#[derive(Debug)]
pub(super) struct ToldPlace {
    pub(super) datum: Option<Datum>,
    pub(super) track: Option<Track>,
    pub(super) at: Time,
    /// The present position, which the record need not tell.
    pub(super) fix: Option<ExactPosition>,
}

impl ToldPlace {
    pub(super) fn new(datum: Option<Datum>, position: Option<ExactPosition>) -> Self {
        Self { datum, track: position.map(Track::Straight), at: Time::ZERO, fix: position }
    }
}
