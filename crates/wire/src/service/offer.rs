//! An offer of one service, with its properties.

use minicbor::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::full_text;
use super::kind::{FlowKind, Service};
use super::metadata::Metadata;
use super::name::Form;
use crate::refusal::{Refusal, check_bound};

/// The most services of one node with a name, a rate, a size or metadata.
pub const MAX_OFFERS: usize = 32;

/// The most bytes of one node's offers in a message.
pub const MAX_OFFERS_BYTES: usize = 1_024;

/// A service that a node offers, and what it tells of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize, JsonSchema)]
#[cbor(array)]
#[serde(deny_unknown_fields)]
pub struct Offer {
    #[n(0)]
    #[serde(with = "full_text")]
    #[schemars(with = "Service")]
    pub service: Service,
    /// The rate of a stream, kbit/s; the service's usual one if there is none.
    #[n(1)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kbps: Option<u32>,
    /// The greatest size of an object, bytes; not told if there is none.
    #[n(2)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u32>,
    /// Keys and values for people and for selection.
    #[n(3)]
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
}

/// A property of an offer does not fit its service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidOffer(pub &'static str);

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

    /// Checks that the properties fit the form.
    ///
    /// # Errors
    /// [`InvalidOffer`] says what does not fit.
    pub fn check(&self) -> Result<(), InvalidOffer> {
        match self.service.form() {
            Form::Any => Err(InvalidOffer("the form is not said: add :stream, :object or :call to the service")),
            Form::Stream if self.max_bytes.is_some() => Err(InvalidOffer("a stream has a rate and no greatest size")),
            Form::Object | Form::Call if self.kbps.is_some() => Err(InvalidOffer("only a stream has a rate")),
            _ if self.kbps == Some(0) => Err(InvalidOffer("the rate of a stream is at least 1 kbit/s")),
            _ if self.max_bytes == Some(0) => Err(InvalidOffer("the greatest size of an object is at least 1 byte")),
            _ => Ok(()),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_read_back_from_json() {
        let json = r#"{"service":"acme/lidar#bow:stream","kbps":2000,"metadata":{"sensor":"ir"}}"#;
        let offer: Offer = serde_json::from_str(json).unwrap();
        assert_eq!(offer.check(), Ok(()));
        assert_eq!(serde_json::to_string(&offer).unwrap(), json);
        assert!(serde_json::from_str::<Offer>(r#"{"service":"video","rate":1}"#).is_err());
    }

    #[test]
    fn properties_fit_the_form() {
        for (service, kbps, max_bytes) in [
            ("acme/lidar", None, None),
            ("acme/lidar:stream", Some(0), None),
            ("acme/lidar:stream", None, Some(5)),
            ("acme/map:object", Some(5), None),
            ("acme/map:object", None, Some(0)),
        ] {
            let offer = Offer { kbps, max_bytes, ..Offer::new(service.parse().unwrap()) };
            assert!(offer.check().is_err(), "{offer:?}");
        }
    }
}
