//! How much the node takes on: its streams and their uplink, and its objects.

use super::provide::{MAX_OBJECT_SESSIONS, MAX_OBJECTS_PER_REQUESTER, Provide, Wish};
use super::publish::MAX_MEMBERS;
use super::session::Session;
use crate::ids::NodeId;
use crate::record::Capacity;
use crate::service::Form;

impl Provide {
    /// Whether a request is one more than this node takes on.
    pub(super) fn is_busy(&self, wish: &Wish) -> bool {
        let load = self.load();
        match wish.service.form() {
            Form::Stream { .. } if wish.reflect.is_some() && self.publications.of(wish.service).is_some() => {
                self.members(wish.service).count() >= MAX_MEMBERS
            }
            Form::Stream { bits_per_second, .. } => {
                let kbps = load.kbps.saturating_add(bits_per_second.div_ceil(1000));
                load.streams >= usize::from(self.max_streams) || kbps > self.uplink_kbps
            }
            Form::Object { .. } => {
                let is_scarce = load.objects >= MAX_OBJECT_SESSIONS / 2;
                load.objects >= MAX_OBJECT_SESSIONS
                    || is_scarce && self.objects_to(wish.requester) >= MAX_OBJECTS_PER_REQUESTER
            }
        }
    }

    /// What is left of the node's limits.
    pub(super) fn capacity(&self) -> Capacity {
        let load = self.load();
        let streams = usize::from(self.max_streams).saturating_sub(load.streams);
        let left = self.uplink_kbps.saturating_sub(load.kbps);
        Capacity {
            streams: u16::try_from(streams).unwrap_or(u16::MAX),
            uplink_kbps: if self.uplink_kbps == u32::MAX { u32::MAX } else { left },
        }
    }

    /// What is taken of the limits: of a reflected stream once, however many take it.
    pub(super) fn load(&self) -> Load {
        let mut load = Load::default();
        (load.streams, load.kbps) = self.publications.load();
        for (_, session) in self.under_way().filter(|(_, session)| session.wish.reflect.is_none()) {
            if session.wish.service.is_stream() {
                load.streams += 1;
                load.kbps = load.kbps.saturating_add(session.kbps);
            } else {
                load.objects += 1;
            }
        }
        load
    }

    fn objects_to(&self, requester: NodeId) -> usize {
        let is_one = |session: &Session| !session.wish.service.is_stream() && session.wish.requester == requester;
        self.under_way().filter(|(_, session)| is_one(session)).count()
    }
}

/// What the sessions under way take.
#[derive(Default)]
pub(super) struct Load {
    pub(super) streams: usize,
    pub(super) kbps: u32,
    objects: usize,
}
