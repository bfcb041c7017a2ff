//! Answering what is asked on the link: whether, when, and that only one does.
//!
//! A provider waits for a random part of a time that grows with the number of
//! nodes on the link. Then it tells the others that it answers ([`MulticastSuppression`]) and
//! serves the request as if a hub had handed it over. Who hears of another one
//! first stays silent, until the requester repeats its inquiry. Nothing that
//! comes by multicast is ever sent on.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use roost_wire::messages::{
    Candidate, MAX_CANDIDATES, MulticastCandidate, MulticastMessage, MulticastRequest, MulticastSuppression, Request,
    RequestMode, Route,
};
use roost_wire::{Address, Record, Time};

use super::core::Core;
use super::home::HomeRegistration;
use super::sessions::ProviderSessions;
use super::sessions::serve_request::ServeRequest;
use super::timers::Timer;
use crate::address_filter;
use crate::request_key::RequestKey;

/// The parts of the machine that an answer needs.
pub(super) struct ResponderParts<'a> {
    pub(super) core: &'a mut Core,
    pub(super) attach: &'a HomeRegistration,
    pub(super) provide: &'a mut ProviderSessions,
}

/// The most inquiries under consideration. One more is left to others.
pub const MAX_MULTICAST_REQUESTS: usize = 256;

/// The longest that an inquiry is remembered.
const MAX_DEADLINE: Duration = Duration::from_secs(60);

/// Inquiries heard of lately.
#[derive(Debug, Default)]
pub(super) struct MulticastResponder {
    /// The name in this node's certificate.
    name: String,
    heard: BTreeMap<RequestKey, MulticastEntry>,
}

#[derive(Debug)]
struct MulticastEntry {
    request: Request,
    attempt: u8,
    until: Time,
    stage: ReplyStage,
    /// Answers of others to the same request.
    present: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReplyStage {
    Waiting,
    Answered,
    /// Another one does, or it cannot.
    Silent,
}

impl MulticastResponder {
    /// Nothing heard yet, by the node of this name.
    pub(super) fn new(name: String) -> Self {
        Self { name, heard: BTreeMap::new() }
    }

    /// Somebody on the link asks.
    pub(super) fn on_multicast_request(&mut self, ctx: ResponderParts<'_>, from: IpAddr, inquiry: MulticastRequest) {
        let core = &mut *ctx.core;
        let MulticastRequest { mut request, attempt } = inquiry;
        let Some(Route { requester, reply_to, .. }) = &mut request.route else { return };
        let (key, spec) = (RequestKey { requester: *requester, id: request.id }, &request.spec);
        let is_meant = spec.provider.is_none_or(|selector| selector.matches(core.node, Some(&self.name)));
        if key.requester == core.node || !is_meant || !ctx.provide.offers(spec) {
            return;
        }
        let again = match self.heard.get(&key).filter(|heard| heard.request.nonce == request.nonce) {
            // Heard before, or overtaken, or its turn has not come yet.
            Some(heard) if attempt <= heard.attempt || heard.stage == ReplyStage::Waiting => return,
            Some(heard) => heard.stage == ReplyStage::Answered,
            None if self.heard.len() >= MAX_MULTICAST_REQUESTS => {
                core.counters.multicast_requests_ignored += 1;
                return;
            }
            None => false,
        };
        reachable(reply_to, from);
        let until = core.now + Duration::from_millis(request.deadline_ms.into()).min(MAX_DEADLINE);
        let window = core.multicast_load.window(core.now, spec.area);
        self.heard.insert(key, MulticastEntry { request, attempt, until, stage: ReplyStage::Waiting, present: 0 });
        if again || window.is_zero() {
            return self.answer(ctx, key);
        }
        let nanos = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX);
        let delay = Duration::from_nanos(core.random.below(nanos));
        core.timers.set(Timer::MulticastReply(key), (core.now + delay).min(until));
    }

    /// Somebody answers an inquiry, or its requester has what it wanted.
    pub(super) fn on_multicast_suppression(&mut self, core: &mut Core, taken: MulticastSuppression) {
        let key = RequestKey { requester: taken.requester, id: taken.id };
        let Some(heard) = self.heard.get_mut(&key) else { return };
        if heard.stage == ReplyStage::Waiting && heard.attempt <= taken.attempt {
            core.counters.suppressed += 1;
            self.rest(core, key, ReplyStage::Silent);
        }
    }

    /// Somebody else is there: a lookup lists no more than it wants.
    pub(super) fn on_multicast_candidate(&mut self, core: &mut Core, present: &MulticastCandidate) {
        let key = RequestKey { requester: present.requester, id: present.id };
        let Some(heard) = self.heard.get_mut(&key).filter(|heard| heard.stage == ReplyStage::Waiting) else { return };
        heard.present += 1;
        let wanted = match heard.request.spec.count {
            0 => MAX_CANDIDATES,
            count => usize::from(count),
        };
        if heard.present >= wanted {
            core.counters.suppressed += 1;
            self.rest(core, key, ReplyStage::Silent);
        }
    }

    /// The node answers now, or the inquiry can be forgotten.
    pub(super) fn on_timer(&mut self, ctx: ResponderParts<'_>, key: RequestKey) {
        match self.heard.get(&key) {
            Some(heard) if heard.stage == ReplyStage::Waiting && ctx.core.now < heard.until => self.answer(ctx, key),
            _ => {
                self.heard.remove(&key);
            }
        }
    }

    fn answer(&mut self, ctx: ResponderParts<'_>, key: RequestKey) {
        let ResponderParts { core, attach, provide } = ctx;
        let Some(MulticastEntry { request, attempt, until, .. }) = self.heard.get(&key) else { return };
        let (RequestKey { requester, id }, attempt) = (key, *attempt);
        if request.spec.mode == RequestMode::Lookup && !provide.may_show(core, request.spec.service) {
            // The answer is for all on the link to hear.
            return self.rest(core, key, ReplyStage::Silent);
        }
        if request.spec.mode == RequestMode::Lookup {
            let name = request.spec.provider.map(|_| self.name.clone());
            let mut candidate = candidate(&attach.record_now(core), name);
            candidate.services = candidate.services.about(request.spec.service, &request.spec.filter);
            core.multicast(MulticastMessage::MulticastCandidate(MulticastCandidate { requester, id, candidate }));
            return self.rest(core, key, ReplyStage::Answered);
        }
        let request = ServeRequest {
            addresses: request.reply_to().to_vec(),
            deadline: until.since(core.now),
            ..provide.serve_request((requester, id), None, request)
        };
        let takes = provide.knows((requester, id)) || provide.takes(core, &request);
        if takes {
            let node = core.node;
            core.counters.multicast_replies += 1;
            core.multicast(MulticastMessage::MulticastSuppression(MulticastSuppression {
                requester,
                id,
                attempt,
                sender: node,
            }));
            provide.consider(core, request);
        }
        self.rest(core, key, if takes { ReplyStage::Answered } else { ReplyStage::Silent });
    }

    /// Keeps the inquiry so that a repetition is recognised.
    fn rest(&mut self, core: &mut Core, key: RequestKey, stage: ReplyStage) {
        if let Some(heard) = self.heard.get_mut(&key) {
            heard.stage = stage;
            core.timers.set(Timer::MulticastReply(key), heard.until);
        }
    }
}

/// Keeps the addresses at the host from which the requester has spoken: anybody in the group may
/// name any other one.
pub(super) fn reachable(reply_to: &mut Vec<Address>, from: IpAddr) {
    *reply_to = address_filter::filter_observed(std::mem::take(reply_to), from);
}

/// A record as a lookup shows it.
fn candidate(record: &Record, name: Option<String>) -> Candidate {
    let Record { node, version, cell, ref services, capacity, ref addresses, position, .. } = *record;
    let services = services.clone();
    Candidate { node, version, cell, services, capacity, addresses: addresses.clone(), name, position }
}
