//! What was asked for: the tags under which streams may be offered here.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use roost_proto::reflection::{ReflectionGrant, StreamId, StreamTag};

use crate::refused::Refused;

/// The most tags that are waited for.
pub(crate) const MAX_TAGS: usize = 4096;
/// How long a hub waits until what it admitted is offered to it, and whoever was offered something
/// remembers it: longer than offers are repeated.
pub(super) const GRANTED: Duration = Duration::from_secs(10);
/// How long one who watches waits.
pub(super) const EXPECTED: Duration = Duration::from_secs(5);

/// How often it may turn out that something else was asked for.
const MAX_CHANGES: u8 = 3;

/// For whom a stream is.
#[derive(Clone, Copy, Debug)]
pub(super) enum For {
    /// It is watched here.
    Here,
    /// It is sent on.
    There(ReflectionGrant),
}

#[derive(Debug)]
pub(super) struct Asked {
    pub(super) whom: For,
    /// Which of all it was, in the order in which they were asked for.
    pub(super) number: u64,
    /// What was offered.
    pub(super) stream: Option<StreamId>,
    /// How often that has changed.
    changes: u8,
    /// The address at which it was asked for, and the times that this host's own was told there.
    pub(super) door: Option<(SocketAddr, u8)>,
}

impl Asked {
    /// Whether this stream may be what was asked for. Of who asked by place a hub may have thought that
    /// another is meant, which it carries; what comes later is right. What is sent on is a stream of the
    /// provider that is meant, once that is known: who watches a stream may not offer it as its own.
    pub(super) fn may_be(&self, stream: StreamId) -> bool {
        let may_change = matches!(self.whom, For::Here) && self.changes < MAX_CHANGES;
        let is_anothers = match &self.whom {
            For::There(grant) => grant.provider.is_some_and(|provider| !stream.is_of(provider)),
            For::Here => false,
        };
        !is_anothers && self.stream.is_none_or(|known| known == stream || may_change)
    }

    /// It is this stream; answers which it was taken for, if it was another, or none.
    pub(super) fn bind(&mut self, stream: StreamId) -> Bound {
        match self.stream.replace(stream) {
            None => Bound::First,
            Some(before) if before == stream => Bound::Again,
            Some(before) => {
                self.changes += 1;
                Bound::Instead(before)
            }
        }
    }
}

/// What a tag meant before.
pub(super) enum Bound {
    First,
    Again,
    Instead(StreamId),
}

/// The stream that was offered under the tag of a grant before that grant was repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Renewed {
    Unoffered,
    Offered(StreamId),
    /// It is not of the provider that the grant names.
    OfAnother(StreamId),
}

/// The tags that are waited for.
#[derive(Debug, Default)]
pub(super) struct Tags {
    by_tag: BTreeMap<StreamTag, Asked>,
    asked: u64,
}

impl Tags {
    /// Waits for an offer; one that waits already goes on as it is.
    ///
    /// # Errors
    /// [`Refused::TooManyTags`].
    pub(super) fn wait(&mut self, tag: StreamTag, whom: For) -> Result<(), Refused> {
        if self.by_tag.len() >= MAX_TAGS && !self.by_tag.contains_key(&tag) {
            return Err(Refused::TooManyTags);
        }
        self.asked += 1;
        self.by_tag.entry(tag).or_insert(Asked { whom, number: self.asked, stream: None, changes: 0, door: None });
        Ok(())
    }

    /// Takes over what a grant says that is known already. The provider that is meant may be known only now:
    /// a stream of somebody else is forgotten.
    pub(super) fn renew(&mut self, grant: ReflectionGrant) -> Renewed {
        let Some(asked) = self.by_tag.get_mut(&grant.tag) else { return Renewed::Unoffered };
        if let For::There(known) = &mut asked.whom {
            *known = grant;
        }
        match asked.stream {
            None => Renewed::Unoffered,
            Some(stream) if grant.provider.is_none_or(|provider| stream.is_of(provider)) => Renewed::Offered(stream),
            Some(stream) => {
                asked.stream = None;
                Renewed::OfAnother(stream)
            }
        }
    }

    pub(super) fn get_mut(&mut self, tag: StreamTag) -> Option<&mut Asked> {
        self.by_tag.get_mut(&tag)
    }

    pub(super) fn remove(&mut self, tag: StreamTag) -> Option<Asked> {
        self.by_tag.remove(&tag)
    }

    /// Forgets those of a stream that nobody watches any more; returns them.
    pub(super) fn release(&mut self, stream: StreamId) -> Vec<StreamTag> {
        let is_released = |asked: &Asked| matches!(asked.whom, For::Here) && asked.stream == Some(stream);
        let released = self.by_tag.iter().filter(|(_, asked)| is_released(asked)).map(|(tag, _)| *tag).collect();
        self.by_tag.retain(|_, asked| !is_released(asked));
        released
    }
}
