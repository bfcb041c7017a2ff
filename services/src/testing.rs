//! A request that tests open sources with.

use std::time::Duration;

use roost_wire::messages::ServiceRequest;
use roost_wire::{Area, Service};

/// Sources do not look at the service.
pub(crate) fn any_request(duration: Option<Duration>) -> ServiceRequest {
    ServiceRequest { duration, ..ServiceRequest::new(Service::Video, Area::Anywhere) }
}
