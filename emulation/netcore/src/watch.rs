//! Packets that enter and leave watched pipes, for captures.

use std::collections::{BTreeMap, VecDeque};

use roost_wire::Time;

use super::network::PipeId;
use super::pipe::DropCause;

/// The most sightings that wait for the caller: about as many packets as a pipe may hold.
const MAX_SIGHTINGS: usize = 65_536;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SightingKind {
    Entered,
    Left,
    Dropped(DropCause),
}

/// A packet at an end of a watched pipe, at its exact time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting<P> {
    pub at: Time,
    pub pipe: PipeId,
    pub kind: SightingKind,
    pub number: u64,
    pub packet: P,
}

/// The watched pipes, and the sightings that the caller has not fetched.
#[derive(Clone, Debug)]
pub(super) struct Watch<P> {
    /// By the number of the pipe; pipes beyond the end are not watched.
    pipes: Vec<bool>,
    sightings: VecDeque<Sighting<P>>,
    missed: BTreeMap<PipeId, u64>,
}

impl<P> Watch<P> {
    pub(super) const fn new() -> Self {
        Self { pipes: Vec::new(), sightings: VecDeque::new(), missed: BTreeMap::new() }
    }

    pub(super) fn set(&mut self, pipe: usize, is_watched: bool) {
        if self.pipes.len() <= pipe {
            self.pipes.resize(pipe + 1, false);
        }
        self.pipes[pipe] = is_watched;
    }

    pub(super) fn has(&self, pipe: usize) -> bool {
        self.pipes.get(pipe).copied().unwrap_or_default()
    }

    pub(super) fn add(&mut self, sighting: Sighting<P>) {
        if self.sightings.len() < MAX_SIGHTINGS {
            self.sightings.push_back(sighting);
        } else {
            *self.missed.entry(sighting.pipe).or_default() += 1;
        }
    }

    pub(super) fn next(&mut self) -> Option<Sighting<P>> {
        self.sightings.pop_front()
    }

    pub(super) fn drain_missed(&mut self) -> BTreeMap<PipeId, u64> {
        std::mem::take(&mut self.missed)
    }
}
