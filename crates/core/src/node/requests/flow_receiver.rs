//! The receiver of a flow: of a stream, an object, or a stream whose packets come another way.

use roost_wire::messages::{FlowDescription, FlowMessage, ResumePoint, StreamKeys};
use roost_wire::{Profile, RequestId};

use super::subscription::{Subscription, renewal_report};
use crate::flow::{ObjectReceiver, REPORT_BYTES, StreamReceiver, StreamStatistics};

/// The receiver of a flow, by its kind.
#[derive(Debug)]
pub(super) enum FlowReceiver {
    Stream(Box<StreamReceiver>),
    Object(ObjectReceiver),
    /// A stream whose packets come another way.
    Reflected(Subscription),
}

impl FlowReceiver {
    pub(super) fn new(
        id: RequestId,
        description: &FlowDescription,
        reflected: Option<&StreamKeys>,
        profile: Option<Profile>,
    ) -> Self {
        match (description, reflected) {
            (FlowDescription::Stream { .. }, Some(reflected)) => Self::Reflected(Subscription::new(reflected)),
            (FlowDescription::Stream { .. }, None) => {
                Self::Stream(Box::new(match profile.and_then(Profile::lifetime) {
                    Some(life) => StreamReceiver::with_lifetime(id, life),
                    None => StreamReceiver::new(id),
                }))
            }
            (FlowDescription::Object { bytes, digest, offset, .. }, _) => {
                Self::Object(ObjectReceiver::new(id, *bytes, *digest, offset.unwrap_or(0)))
            }
        }
    }

    /// The report for the provider.
    pub(super) fn report(&mut self, id: RequestId) -> FlowMessage {
        match self {
            Self::Stream(stream) => FlowMessage::Report(stream.report()),
            Self::Object(object) => FlowMessage::Report(object.report()),
            Self::Reflected(_) => renewal_report(id),
        }
    }

    /// True if a provider that offers this may go on with it.
    pub(super) fn may_go_on_with(&self, flow: &FlowDescription) -> bool {
        match (self, flow) {
            (Self::Object(object), FlowDescription::Object { bytes, digest, .. }) => object.is_of(*bytes, digest),
            (Self::Stream(_), FlowDescription::Stream { .. }) | (Self::Reflected(_), _) => true,
            _ => false,
        }
    }

    pub(super) fn resume_point(&self) -> Option<ResumePoint> {
        match self {
            Self::Object(object) => Some(object.resume_point()),
            Self::Stream(_) | Self::Reflected(_) => None,
        }
    }

    /// True if the reader of an object has so much to take that its provider may have been told to wait.
    pub(super) fn waits_for_reader(&self) -> bool {
        matches!(self, Self::Object(object) if object.unread() >= REPORT_BYTES)
    }

    pub(super) fn subscription(&mut self) -> Option<&mut Subscription> {
        match self {
            Self::Reflected(subscription) => Some(subscription),
            Self::Stream(_) | Self::Object(_) => None,
        }
    }

    /// True if a stream's end was announced.
    pub(super) fn has_ended(&self) -> bool {
        match self {
            Self::Stream(stream) => stream.has_ended(),
            Self::Reflected(subscription) => subscription.ended,
            Self::Object(_) => false,
        }
    }

    /// True if nothing is missing.
    pub(super) fn is_whole(&self) -> bool {
        match self {
            Self::Stream(stream) => stream.has_everything(),
            Self::Object(object) => object.has_everything(),
            Self::Reflected(subscription) => subscription.ended,
        }
    }

    /// The counts of a stream that this node receives itself.
    pub(super) fn statistics(&self) -> StreamStatistics {
        match self {
            Self::Stream(stream) => stream.statistics(),
            Self::Object(_) | Self::Reflected(_) => StreamStatistics::default(),
        }
    }
}
