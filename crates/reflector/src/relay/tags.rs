//! What was asked for: the tags under which streams may be offered here.

use std::collections::BTreeMap;
use std::time::Duration;

use roost_proto::reflection::{Grant, StreamId, Tag};

/// The most tags that are waited for.
pub(super) const MAX_TAGS: usize = 4096;
/// How long a hub waits until what it admitted is offered to it, and remembers it afterwards.
pub(super) const GRANTED: Duration = Duration::from_secs(10);
/// How long one who watches waits.
pub(super) const EXPECTED: Duration = Duration::from_secs(5);

/// For whom a stream is.
#[derive(Clone, Copy, Debug)]
pub(super) enum For {
    /// It is watched here.
    Here,
    /// It is sent on.
    There(Grant),
}

#[derive(Debug)]
pub(super) struct Asked {
    pub(super) whom: For,
    /// What was offered.
    pub(super) stream: Option<StreamId>,
}

/// The tags that are waited for.
#[derive(Debug, Default)]
pub(super) struct Tags(BTreeMap<Tag, Asked>);

impl Tags {
    /// Waits for an offer; one that waits already goes on as it is. Answers whether there is room.
    pub(super) fn wait(&mut self, tag: Tag, whom: For) -> bool {
        if self.0.len() >= MAX_TAGS && !self.0.contains_key(&tag) {
            return false;
        }
        self.0.entry(tag).or_insert(Asked { whom, stream: None });
        true
    }

    pub(super) fn get_mut(&mut self, tag: Tag) -> Option<&mut Asked> {
        self.0.get_mut(&tag)
    }

    pub(super) fn remove(&mut self, tag: Tag) -> Option<Asked> {
        self.0.remove(&tag)
    }

    /// Forgets those of a stream that nobody watches any more; returns them.
    pub(super) fn release(&mut self, stream: StreamId) -> Vec<Tag> {
        let is_released = |asked: &Asked| matches!(asked.whom, For::Here) && asked.stream == Some(stream);
        let released = self.0.iter().filter(|(_, asked)| is_released(asked)).map(|(tag, _)| *tag).collect();
        self.0.retain(|_, asked| !is_released(asked));
        released
    }
}
