//! Why a request failed, for people.

use std::time::Duration;

use roost_wire::messages::{Reason, ServiceRequest};
use roost_wire::printable;

use super::outgoing_request::OutgoingRequest;
use crate::node::core::Core;

pub(super) fn sentence(reason: Reason, asked: &OutgoingRequest, core: &Core) -> String {
    let request = &asked.request;
    let service = request.service;
    let deadline = for_people(request.timeout());
    if let Some(detail) = asked.provider.as_ref().and_then(|_| direct_sentence(reason, request)) {
        return detail;
    }
    match reason {
        Reason::NotFound if asked.ways.is_multicast_only() => {
            format!("nobody in this subnet can serve {request}")
        }
        Reason::Unreachable | Reason::TimedOut if asked.waits_for_home() => {
            format!("no hub could be reached within {deadline:?}")
        }
        Reason::TimedOut if asked.is_hub_silent(core) => format!("the hub has not answered within {deadline:?}"),
        Reason::NotFound | Reason::TooSlow => format!("nobody offers {request}"),
        Reason::NotYetKnown => {
            format!("nobody is known yet to offer {request}: the hub has just started")
        }
        Reason::Busy => format!("every provider of {request} is busy"),
        Reason::NoTransport => format!("no transport that the request allows leads to a provider of {request}"),
        Reason::Unreachable => format!("no provider of {request} could be reached"),
        Reason::UnreachableAbove => {
            format!("no near node offers {request}, and the way to the other hubs is cut")
        }
        Reason::SourceFailed => match &asked.sentence {
            Some(words) => format!("{} declined: {:?}", provider_name(asked, core), words.as_str()),
            None => format!("the provider's source of {service} gave nothing"),
        },
        Reason::TimedOut => format!("no provider of {request} answered within {deadline:?}"),
        Reason::Leaving => "this node is leaving".to_owned(),
        Reason::TooMany => "the hub takes no more requests: this node asks too often, or the hub is full".to_owned(),
        Reason::Forbidden => forbidden(request),
        Reason::NotAllowed => "the hub does not allow this request".to_owned(),
        Reason::Cancelled => "the request was cancelled".to_owned(),
        Reason::WrongBody => {
            format!("the provider of {service} has got another body than the call names: call it again")
        }
        Reason::Protocol => "the provider broke the protocol's rules".to_owned(),
        Reason::Saturated => format!("no super node on the way has room for one more copy of {request}"),
        Reason::Unspecified => {
            "it was refused for a reason that only later versions know: upgrade this node to learn it".to_owned()
        }
        Reason::UnsupportedVersion => {
            format!("the hub is of an earlier version, which does not know {service}: upgrade the hub")
        }
        Reason::Reflected => format!("{request} is reflected from now on, which this node cannot take"),
    }
}

/// Why a request to a known provider failed, for people; `None` if it is as for any other.
fn direct_sentence(reason: Reason, request: &ServiceRequest) -> Option<String> {
    let ServiceRequest { service, .. } = request;
    let deadline = for_people(request.timeout());
    match reason {
        Reason::NotFound => Some(format!("that node does not offer {service}")),
        Reason::TooSlow => Some(format!("that node's stream of {service} is slower than requested")),
        Reason::Busy => Some(format!("that provider of {service} is busy")),
        Reason::NoTransport => Some("no transport that the request allows leads to that node".to_owned()),
        Reason::Unreachable => Some("that node could not be reached".to_owned()),
        Reason::NotAllowed => Some("that node does not allow this request".to_owned()),
        Reason::Forbidden => Some(forbidden(request)),
        Reason::TimedOut => Some(format!("that node has not answered within {deadline:?}")),
        _ => None,
    }
}

/// The provider in a sentence, with its name if this node has asked it itself.
fn provider_name(asked: &OutgoingRequest, core: &Core) -> String {
    let asked_at = asked.via.filter(|_| asked.is_direct()).and_then(|at| core.connections.get(at));
    let name = asked_at.map(|entry| entry.own.name.as_str()).filter(|name| !name.is_empty());
    name.map_or("the provider".to_owned(), |name| format!("the provider {}", printable(name)))
}

/// Another member has refused by a policy that this node does not hold, or does not read so.
fn forbidden(request: &ServiceRequest) -> String {
    format!("the group's policy does not let this node have {request}: `roost policy explain` names the rule")
}

/// A duration as a person would say it: 9.999999599 s is 10 s. In tenths of a second from one on,
/// in milliseconds below.
fn for_people(duration: Duration) -> Duration {
    let step = if duration < Duration::from_secs(1) { 1 } else { 100 };
    let steps = (duration.as_secs_f64() * 1e3 / step as f64).round();
    Duration::from_millis((steps as u64).saturating_mul(step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_told_rounded() {
        let told = |nanos| format!("{:?}", for_people(Duration::from_nanos(nanos)));
        let nanos = [9_999_999_599, 4_999_999_430, 10_000_000_000, 1_540_000_000, 12_400_000, 0];
        assert_eq!(nanos.map(told), ["10s", "5s", "10s", "1.5s", "12ms", "0ns"]);
        assert!(for_people(Duration::MAX) > Duration::from_secs(1 << 40));
    }
}
