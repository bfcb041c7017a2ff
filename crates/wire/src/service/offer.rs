//! An offer of one service, with its properties.

use minicbor::{Decode, Encode};

use super::kind::{FlowKind, Service};
use super::metadata::Metadata;
use crate::refusal::{Refusal, check_bound};

/// The most services of one node with a name, a rate, a size or metadata.
pub const MAX_OFFERS: usize = 32;

/// The most bytes of one node's offers in a message.
pub const MAX_OFFERS_BYTES: usize = 1_024;

/// A service that a node offers, and what it tells of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(array)]
pub struct Offer {
    #[n(0)]
    pub service: Service,
    /// The rate of a stream, kbit/s; the service's usual one if there is none.
    #[n(1)]
    pub kbps: Option<u32>,
    /// The greatest size of an object, bytes; not told if there is none.
    #[n(2)]
    pub max_bytes: Option<u32>,
    /// Keys and values for people and for selection.
    #[n(3)]
    pub metadata: Metadata,
}

impl Offer {
    /// An offer that tells nothing but its service.
    pub fn new(service: Service) -> Self {
        Self { service, kbps: None, max_bytes: None, metadata: Metadata::default() }
    }

    /// The form of the data, with the rate or size that the offer tells.
    pub const fn flow_kind(&self) -> FlowKind {
        match (self.service.flow_kind(), self.kbps, self.max_bytes) {
            (FlowKind::Stream { packet_bytes, .. }, Some(kbps), _) => {
                FlowKind::Stream { bits_per_second: kbps.saturating_mul(1_000), packet_bytes }
            }
            (FlowKind::Object { .. }, _, Some(bytes)) => FlowKind::Object { bytes },
            (usual, ..) => usual,
        }
    }

    /// True if the offer tells nothing that a bit in a set does not tell.
    pub(super) fn is_plain(&self) -> bool {
        let is_known = !matches!(self.service, Service::Named(_));
        is_known && self.kbps.is_none() && self.max_bytes.is_none() && self.metadata.is_empty()
    }

    /// No fewer bytes than the offer takes in a message.
    pub(super) fn bytes(&self) -> usize {
        /// Numbers, and the heads of arrays and of the name.
        const FRAME: usize = 20;
        /// The heads of a key and a value.
        const PAIR: usize = 4;
        FRAME
            + self.service.name().len()
            + self.metadata.iter().map(|(key, value)| key.len() + value.len() + PAIR).sum::<usize>()
    }

    pub(super) fn check_limits(&self) -> Result<(), Refusal> {
        check_bound(self.kbps != Some(0), "a stream without a rate")
    }
}
