//! Services: the four that every node knows, and those that people name.

pub mod full_text;
mod kind;
mod metadata;
mod name;
mod offer;
mod set;

pub use kind::{FlowKind, ParseServiceError, Service, ServiceCode};
pub use metadata::{MAX_METADATA_BYTES, Metadata, MetadataError};
pub use name::{Form, MAX_SERVICE_NAME_BYTES, ServiceName, ServiceNameError};
pub use offer::{InvalidOffer, MAX_OFFERS, MAX_OFFERS_BYTES, Offer};
pub use set::{ServiceExcerpt, ServiceSet, TooManyOffers};
