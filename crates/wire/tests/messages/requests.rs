//! Requests with any values.

use std::net::IpAddr;
use std::time::Duration;

use proptest::prelude::*;
use roost_wire::messages::{
    CallBody, CopyTarget, HubHop, MAX_BODY_BYTES, MAX_REQUEST_TIME, MulticastRequest, ReflectionPolicy, Request,
    RequestMode, ResumePoint, Route, ServiceRequest,
};
use roost_wire::{DeliveryClass, Nonce, Profile, Scheme, SchemeSet, Scope, StreamTag};

use super::words::{addresses, area, cell, id, names, node, service, way};

pub(crate) fn copy_target() -> BoxedStrategy<CopyTarget> {
    let (named, resumes) = (prop::option::of(node()), prop::option::of(any::<bool>()));
    (any::<IpAddr>(), 1..=u16::MAX, any::<u64>(), any::<u8>(), named, resumes)
        .prop_map(|(host, port, tag, hops, provider, is_resuming)| CopyTarget {
            to: (host, port).into(),
            tag: StreamTag(tag),
            hops,
            provider,
            is_resuming,
        })
        .boxed()
}

pub(crate) fn route() -> BoxedStrategy<Route> {
    let hop = (cell(), way(), any::<u8>(), prop::option::of(node()))
        .prop_map(|(cell, direction, hops_left, provider)| HubHop { cell, direction, hops_left, provider });
    (node(), addresses(), prop::option::of(hop))
        .prop_map(|(requester, reply_to, hop)| Route { requester, reply_to, hop })
        .boxed()
}

/// A wish as it travels: without the fields that stay at the requester's node.
pub(crate) fn service_request() -> BoxedStrategy<ServiceRequest> {
    let mode = prop::sample::select(vec![RequestMode::Forward, RequestMode::Relay, RequestMode::Lookup]);
    let reflect =
        prop::sample::select(vec![ReflectionPolicy::IfBusy, ReflectionPolicy::Always, ReflectionPolicy::Never]);
    let duration = (1..=MAX_REQUEST_TIME.as_millis() as u64).prop_map(Duration::from_millis);
    let transports = prop::sample::subsequence(Scheme::ALL.to_vec(), 0..=3)
        .prop_map(|schemes| schemes.into_iter().collect::<SchemeSet>());
    let profile = prop::option::of(prop::sample::select(Profile::ALL.to_vec()));
    let class = prop::option::of(prop::sample::select(DeliveryClass::ALL.to_vec()));
    let resume = (any::<[u8; 32]>(), any::<u64>()).prop_map(|(digest, offset)| ResumePoint { digest, offset });
    let body = (any::<[u8; 32]>(), 1..=MAX_BODY_BYTES as u32).prop_map(|(digest, length)| CallBody { digest, length });
    let program = (prop_oneof![Just(String::new()), "[a-z ]{1,200}"], prop::option::of(body));
    let subject = (service(), area(), prop::sample::select(Scope::ALL.to_vec()), mode, any::<u8>(), names());
    let delivery = (prop::option::of(duration), transports, profile, class, reflect);
    let rest = (prop::option::of(resume), any::<bool>(), any::<bool>(), prop::option::of(1..u32::MAX));
    (subject, delivery, rest, program)
        .prop_map(|((service, area, scope, mode, count, provider), delivery, rest, (params, body))| {
            let (duration, transports, profile, class, reflect) = delivery;
            let (resume, pushed, trace, min_kbps) = rest;
            ServiceRequest {
                scope,
                mode,
                count,
                duration,
                transports,
                profile,
                class,
                reflect,
                resume,
                pushed,
                trace,
                provider,
                min_kbps: min_kbps.filter(|_| service.is_stream()),
                params: if reflect == ReflectionPolicy::Always { String::new() } else { params },
                body: body.filter(|_| service.is_call()),
                ..ServiceRequest::new(service, area)
            }
        })
        .boxed()
}

pub(crate) fn request(route: impl Strategy<Value = Option<Route>> + 'static) -> BoxedStrategy<Request> {
    let nonce = any::<u64>().prop_map(Nonce::from_u64);
    let (copy_target, connect_to) = (prop::option::of(copy_target()), prop::option::of(node()));
    (id(), nonce, service_request(), any::<u32>(), route, copy_target, connect_to)
        .prop_map(|(id, nonce, spec, deadline_ms, route, copy_target, connect_to)| Request {
            route,
            copy_target,
            connect_to,
            ..Request::new(id, nonce, spec, deadline_ms)
        })
        .boxed()
}

/// Requests whose every option has a value.
pub(crate) fn full_request() -> impl Strategy<Value = Request> {
    request(Just(None)).prop_map(|request| {
        let spec = ServiceRequest {
            scope: Scope::Area,
            mode: RequestMode::Relay,
            transports: SchemeSet::only(Scheme::Udp),
            profile: Some(Profile::Piloting),
            class: Some(DeliveryClass::Backup),
            reflect: ReflectionPolicy::Always,
            params: String::new(),
            ..ServiceRequest::clone(&request.spec)
        };
        Request { spec: spec.into(), ..request }
    })
}

pub(crate) fn multicast_request() -> BoxedStrategy<MulticastRequest> {
    (request(route().prop_map(Some)), any::<u8>())
        .prop_map(|(request, attempt)| MulticastRequest { request, attempt })
        .boxed()
}
