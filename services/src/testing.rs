//! A request that tests open sources with.

use std::time::Duration;

use roost_core::wire::ServiceRequest;
use roost_core::{Area, Service};

/// The source decides about the service.
pub(crate) fn any_request(duration: Option<Duration>) -> ServiceRequest {
    ServiceRequest { duration, ..ServiceRequest::new(Service::Video, Area::Anywhere) }
}
