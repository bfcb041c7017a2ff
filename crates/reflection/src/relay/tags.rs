//! The tags under which streams may be offered here.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use roost_wire::{ReflectionGrant, StreamId, StreamTag};

use crate::admission::{AdmissionError, MAX_TAGS};

/// A hub waits so long for the offer of a stream that it admitted, and a downstream remembers an offer so long:
/// longer than offers are repeated.
pub(super) const GRANTED: Duration = Duration::from_secs(10);
/// A subscriber waits so long for an offer.
pub(super) const EXPECTED: Duration = Duration::from_secs(5);

/// The most times that another stream replaces the one of a tag.
const MAX_CHANGES: u8 = 3;

#[derive(Clone, Copy, Debug)]
pub(super) enum StreamUse {
    /// A subscriber of this host watches it.
    Local,
    /// This host sends it on.
    Forwarded(ReflectionGrant),
}

#[derive(Debug)]
pub(super) struct ExpectedOffer {
    pub(super) whom: StreamUse,
    /// The place among all requests, in their order.
    pub(super) number: u64,
    /// The stream that was offered under the tag.
    pub(super) stream: Option<StreamId>,
    /// The number of changes of that stream.
    changes: u8,
    /// The address at which it was asked for, and the times that this host's own was told there.
    pub(super) door: Option<(SocketAddr, u8)>,
}

impl ExpectedOffer {
    /// True if this stream may be what was asked for. Of who asked by place a hub may have thought that
    /// another is meant, which it carries; what comes later is right. What is sent on is a stream of the
    /// provider that is meant, once that is known: who watches a stream may not offer it as its own.
    pub(super) fn may_be(&self, stream: StreamId) -> bool {
        let may_change = matches!(self.whom, StreamUse::Local) && self.changes < MAX_CHANGES;
        let is_anothers = match &self.whom {
            StreamUse::Forwarded(grant) => grant.provider.is_some_and(|provider| !stream.is_of(provider)),
            StreamUse::Local => false,
        };
        !is_anothers && self.stream.is_none_or(|known| known == stream || may_change)
    }

    /// Binds the tag to this stream; returns the relation to the stream before.
    pub(super) fn bind(&mut self, stream: StreamId) -> BindOutcome {
        match self.stream.replace(stream) {
            None => BindOutcome::First,
            Some(before) if before == stream => BindOutcome::Again,
            Some(before) => {
                self.changes += 1;
                BindOutcome::Instead(before)
            }
        }
    }
}

/// The relation of a stream to the one that a tag meant before.
pub(super) enum BindOutcome {
    First,
    Again,
    Instead(StreamId),
}

/// The stream that was offered under the tag of a grant before that grant was repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GrantRenewal {
    Unoffered,
    Offered(StreamId),
    /// The offered stream is not of the provider that the grant names.
    OfAnother(StreamId),
}

#[derive(Debug, Default)]
pub(super) struct ExpectedOffers {
    by_tag: BTreeMap<StreamTag, ExpectedOffer>,
    asked: u64,
}

impl ExpectedOffers {
    /// Waits for an offer; one that waits already goes on as it is.
    ///
    /// # Errors
    /// [`AdmissionError::TooManyTags`].
    pub(super) fn wait(&mut self, tag: StreamTag, whom: StreamUse) -> Result<(), AdmissionError> {
        if self.by_tag.len() >= MAX_TAGS && !self.by_tag.contains_key(&tag) {
            return Err(AdmissionError::TooManyTags);
        }
        self.asked += 1;
        self.by_tag.entry(tag).or_insert(ExpectedOffer {
            whom,
            number: self.asked,
            stream: None,
            changes: 0,
            door: None,
        });
        Ok(())
    }

    /// Takes over what a grant says that is known already. The provider that is meant may be known only now:
    /// a stream of somebody else is forgotten.
    pub(super) fn renew(&mut self, grant: ReflectionGrant) -> GrantRenewal {
        let Some(asked) = self.by_tag.get_mut(&grant.tag) else { return GrantRenewal::Unoffered };
        if let StreamUse::Forwarded(known) = &mut asked.whom {
            *known = grant;
        }
        match asked.stream {
            None => GrantRenewal::Unoffered,
            Some(stream) if grant.provider.is_none_or(|provider| stream.is_of(provider)) => {
                GrantRenewal::Offered(stream)
            }
            Some(stream) => {
                asked.stream = None;
                GrantRenewal::OfAnother(stream)
            }
        }
    }

    pub(super) fn get_mut(&mut self, tag: StreamTag) -> Option<&mut ExpectedOffer> {
        self.by_tag.get_mut(&tag)
    }

    pub(super) fn remove(&mut self, tag: StreamTag) -> Option<ExpectedOffer> {
        self.by_tag.remove(&tag)
    }

    /// Forgets those of a stream that nobody watches any more; returns them.
    pub(super) fn release(&mut self, stream: StreamId) -> Vec<StreamTag> {
        let is_released =
            |asked: &ExpectedOffer| matches!(asked.whom, StreamUse::Local) && asked.stream == Some(stream);
        let released = self.by_tag.iter().filter(|(_, asked)| is_released(asked)).map(|(tag, _)| *tag).collect();
        self.by_tag.retain(|_, asked| !is_released(asked));
        released
    }
}
