//! What the node has asked for, until somebody accepts or there is a final answer.

use std::collections::BTreeMap;
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::api::{Config, Discovery, Event, Ticket, Wanted};
use super::asked::{Asked, Phase, sentence};
use super::attach::Attach;
use super::core::Core;
use super::direct;
use super::early::Early;
use super::inquire::{self, Ways};
use super::judge::Judge;
use super::links::{Loss, Way};
use super::status::RequestStatus;
use super::timers::Timer;
use crate::address::SchemeSet;
use crate::grid::Area;
use crate::ids::{LinkId, Nonce, RequestId};
use crate::scope::Scope;
use crate::service::{Role, Service};
use crate::time::Time;
use crate::wire::{Decline, Found, MAX_CANDIDATES, Message, Mode, Reason};

/// The most requests and lookups at once.
pub const MAX_REQUESTS: usize = 256;

/// How long a lookup waits for its answer.
pub const LOOKUP_DEADLINE: Duration = Duration::from_secs(5);

/// When to ask again after a refusal that may turn out otherwise.
const SHORT_PAUSE: Duration = Duration::from_millis(250);

/// When to ask again after a provider has said that it is on its way.
const PENDING_PATIENCE: Duration = Duration::from_secs(2);

/// Requests and lookups under way.
#[derive(Debug)]
pub(super) struct Requests {
    pub(super) asked: BTreeMap<RequestId, Asked>,
    tickets: BTreeMap<Ticket, RequestId>,
    pub(super) early: Early,
    pub(super) multicast: bool,
    pub(super) discovery: Discovery,
    pub(super) judge: Judge,
    secret: u64,
}

impl Requests {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            asked: BTreeMap::new(),
            tickets: BTreeMap::new(),
            early: Early::default(),
            multicast: config.multicast,
            discovery: config.discovery,
            judge: Judge::default(),
            secret: config.seed,
        }
    }

    pub(super) fn request(&mut self, core: &mut Core, attach: &Attach, ticket: Ticket, mut wanted: Wanted) {
        let refusal = if wanted.mode == Mode::Locate || !wanted.area.is_valid() {
            Some((Reason::NotAllowed, "the request is malformed"))
        } else if let Some(objection) = direct::objection(core, &wanted) {
            Some((Reason::NotAllowed, objection))
        } else if let Some(objection) = self.out_of_scope(&wanted) {
            Some((Reason::NotAllowed, objection))
        } else if self.asked.len() >= MAX_REQUESTS {
            Some((Reason::TooMany, "this node has too many requests under way"))
        } else if wanted.trace && !core.begin_trace(ticket) {
            Some((Reason::TooMany, "this node traces too many requests already"))
        } else {
            None
        };
        if let Some((reason, detail)) = refusal {
            return core.emit(Event::Failed { ticket, reason, detail: detail.to_owned(), retry_after: None });
        }
        wanted.area = inquire::narrowed(wanted.scope, wanted.area, attach.record().cell);
        let id = self.insert(core, ticket, wanted);
        self.begin_search(core, attach, id);
    }

    pub(super) fn lookup(
        &mut self,
        core: &mut Core,
        attach: &Attach,
        ticket: Ticket,
        service: Service,
        area: Area,
        count: u8,
    ) {
        if self.asked.len() >= MAX_REQUESTS || !area.is_valid() {
            let (reason, detail) = (Reason::TooMany, "the lookup is malformed or one too many".to_owned());
            return core.emit(Event::Failed { ticket, reason, detail, retry_after: None });
        }
        let count = count.min(MAX_CANDIDATES as u8);
        let (mode, transports, deadline) = (Mode::Locate, SchemeSet::ALL, LOOKUP_DEADLINE);
        let (duration, provider, scope) = (None, None, Scope::Anywhere);
        let wanted =
            Wanted { service, area, mode, count, duration, transports, deadline, provider, scope, trace: false };
        let id = self.insert(core, ticket, wanted);
        self.begin_search(core, attach, id);
    }

    fn insert(&mut self, core: &mut Core, ticket: Ticket, wanted: Wanted) -> RequestId {
        let deadline = core.now + wanted.deadline;
        let asked = Asked {
            ticket,
            wanted,
            nonce: Nonce::from_u64(0),
            commanded: core.now,
            deadline,
            phase: Phase::Homeless,
            ways: Ways::default(),
            via: None,
            hedge: None,
            sent: core.now,
            tries: 0,
            numbers: 0,
            last: None,
            retry_after: None,
        };
        self.number(core, asked)
    }

    /// Enters a request under a new number, with a new secret.
    fn number(&mut self, core: &mut Core, mut asked: Asked) -> RequestId {
        let id = core.next_request();
        asked.nonce = self.nonce(id, core);
        asked.tries = 0;
        asked.hedge = None;
        asked.numbers += 1;
        asked.phase = Phase::Homeless;
        core.timers.set(Timer::Deadline(id), asked.deadline);
        self.tickets.insert(asked.ticket, id);
        self.asked.insert(id, asked);
        id
    }

    /// A number that only this node can know: who has seen some of them cannot
    /// tell the next.
    fn nonce(&self, id: RequestId, core: &mut Core) -> Nonce {
        let mut hash = Sha256::new();
        hash.update(self.secret.to_be_bytes());
        hash.update(id.0.to_be_bytes());
        hash.update(core.random.next_u64().to_be_bytes());
        let digest: [u8; 32] = hash.finalize().into();
        Nonce::from_u64(digest[..8].iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    /// Sends a request to the home, or reaches for the home over a transport
    /// that the request allows.
    pub(super) fn ask(&mut self, core: &mut Core, attach: &Attach, id: RequestId) {
        let Some(asked) = self.asked.get_mut(&id) else { return };
        if asked.is_direct() {
            return self.ask_provider(core, id);
        }
        let Some(home) = attach.home() else {
            asked.phase = Phase::Homeless;
            return core.timers.clear(Timer::Ask(id));
        };
        let Some(entry) = core.links.get(home) else { return };
        let schemes = asked.wanted.transports;
        let relayed = asked.wanted.mode == Mode::Relay || core.hub_role == Role::Server;
        let hub = entry.peer.node;
        let link = if relayed && asked.wanted.mode != Mode::Locate && !schemes.contains(entry.address.scheme) {
            core.links.between(hub, schemes)
        } else {
            Some(home)
        };
        if let Some(link) = link {
            asked.send(core, id, link);
            return self.hedge(core, attach, id);
        }
        let addresses = attach.home_addresses(schemes);
        if addresses.is_empty() {
            return self.fail(core, id, Reason::NoTransport);
        }
        asked.phase = Phase::Reaching;
        core.timers.clear(Timer::Ask(id));
        core.dial_hub(Way { node: hub, schemes }, addresses);
    }

    /// The home has been silent: puts the same request to the stand-by as well.
    /// Whoever is asked twice knows it by its number and nonce.
    fn hedge(&mut self, core: &mut Core, attach: &Attach, id: RequestId) {
        let Some(asked) = self.asked.get_mut(&id).filter(|asked| asked.tries > 1) else { return };
        let Some(standby) = attach.standby().filter(|standby| asked.may_go_over(core, *standby)) else { return };
        core.counters.hedges += u64::from(asked.hedge.is_none());
        asked.hedge = Some(standby);
        let (request, ticket) = (asked.message(core, id), asked.ticket);
        core.send(standby, &request);
        core.trace_sent(ticket, id, standby);
    }

    /// A hub was reached over the transport that requests want. If it is no
    /// longer the home, they are asked at the new one.
    pub(super) fn on_hub_reached(&mut self, core: &mut Core, attach: &Attach, way: Way, link: LinkId) {
        core.mind_idleness(link);
        for id in self.reaching_home(core, attach, way) {
            if let Some(asked) = self.asked.get_mut(&id) {
                asked.send(core, id, link);
            }
        }
    }

    pub(super) fn on_hub_unreachable(&mut self, core: &mut Core, attach: &Attach, way: Way) {
        for id in self.reaching_home(core, attach, way) {
            self.fail(core, id, Reason::NoTransport);
        }
    }

    /// The requests that wait for the home to be reached in this way.
    fn reaching_home(&self, core: &Core, attach: &Attach, way: Way) -> Vec<RequestId> {
        let home = attach.home().and_then(|home| core.links.get(home)).map(|link| link.peer.node);
        if home != Some(way.node) {
            return Vec::new();
        }
        self.reaching(|asked| !asked.is_direct() && asked.wanted.transports == way.schemes)
    }

    /// The requests that wait for a dial and of which `which` holds.
    pub(super) fn reaching(&self, which: impl Fn(&Asked) -> bool) -> Vec<RequestId> {
        let meant = |asked: &Asked| matches!(asked.phase, Phase::Reaching) && which(asked);
        self.asked.iter().filter(|(_, asked)| meant(asked)).map(|(id, _)| *id).collect()
    }

    /// Nothing was heard in time: asks again. Returns since when the home has
    /// been silent, if it may be gone.
    pub(super) fn on_ask_timer(&mut self, core: &mut Core, attach: &Attach, id: RequestId) -> Option<Time> {
        let open = |asked: &&Asked| !matches!(asked.phase, Phase::Receiving(_));
        let asked = self.asked.get(&id).filter(open)?;
        let answered = asked.via.and_then(|link| core.links.get(link)).map(|link| link.answered);
        let silent = !asked.is_direct() && answered.is_some_and(|answered| answered < asked.sent);
        let since = silent.then_some(asked.sent);
        if asked.tries > 0 && !matches!(asked.phase, Phase::Homeless) {
            core.counters.retries += 1;
        }
        if asked.ways.is_idle() {
            self.begin_search(core, attach, id);
        } else if asked.ways.hub {
            self.ask(core, attach, id);
        }
        since
    }

    pub(super) fn on_deadline(&mut self, core: &mut Core, id: RequestId) {
        let Some(asked) = self.asked.get(&id) else { return };
        let reason = match (asked.last, asked.tries) {
            (Some(reason), _) => reason,
            (None, 0) if asked.ways.link_only() => Reason::TimedOut,
            (None, 0) => Reason::Unreachable,
            (None, _) => Reason::TimedOut,
        };
        self.fail(core, id, reason);
    }

    /// The last word of a hub. Returns whether it was that the hub is leaving.
    pub(super) fn on_decline(&mut self, core: &mut Core, attach: &Attach, link: LinkId, decline: Decline) -> bool {
        let id = decline.id;
        let waiting = |asked: &&mut Asked| asked.is_asked_over(link) && !matches!(asked.phase, Phase::Receiving(_));
        let Some(asked) = self.asked.get_mut(&id).filter(waiting) else {
            core.counters.stale += 1;
            return false;
        };
        if asked.via != Some(link) {
            // The last word is the home's, or the stand-by's when it is the home.
            return false;
        }
        asked.retry_after = decline.retry_after_ms.map(|millis| Duration::from_millis(millis.into()));
        if decline.reason == Reason::Leaving && !asked.is_direct() {
            // The request goes to the next home.
            return true;
        }
        if self.goes_on_at_link(core, attach, id, decline.reason) {
            return false;
        }
        let Some(asked) = self.asked.get_mut(&id) else { return false };
        match decline.reason {
            Reason::NoTransport if asked.may_be_relayed(core) => {
                asked.wanted.mode = Mode::Relay;
                self.ask_anew(core, attach, id);
            }
            reason if asked.may_be_premature(core, reason) => {
                asked.last = Some(reason);
                let longer = SHORT_PAUSE * (1 << asked.numbers.clamp(1, 3)) / 2;
                let pause = asked.retry_after.unwrap_or(longer);
                let id = self.renumber(core, id);
                core.set(Timer::Ask(id), pause.clamp(SHORT_PAUSE, Duration::from_secs(1)));
            }
            reason => self.fail(core, id, reason),
        }
        false
    }

    /// A provider is on its way.
    pub(super) fn on_pending(&mut self, core: &mut Core, link: LinkId, id: RequestId) {
        let Some(asked) = self.asked.get_mut(&id).filter(|asked| asked.is_asked_over(link)) else { return };
        if matches!(asked.phase, Phase::Waiting) {
            asked.phase = Phase::Pending;
            core.set(Timer::Ask(id), PENDING_PATIENCE);
        }
    }

    pub(super) fn on_found(&mut self, core: &mut Core, link: LinkId, found: Found) {
        let id = found.id;
        // That it knows of nobody is no answer of a stand-by while the home may know more.
        let counts = |asked: &Asked| asked.via == Some(link) || !found.candidates.is_empty();
        let ours = |asked: &&Asked| asked.is_asked_over(link) && asked.wanted.mode == Mode::Locate && counts(asked);
        let Some(ticket) = self.asked.get(&id).filter(ours).map(|asked| asked.ticket) else {
            core.counters.stale += 1;
            return;
        };
        self.remove(core, id);
        core.emit(Event::Found { ticket, found });
    }

    /// There is a (new) home: everything unanswered is asked there.
    pub(super) fn on_attached(&mut self, core: &mut Core, attach: &Attach) {
        let home = attach.home();
        for id in self.unaccepted() {
            let now = core.now;
            let is_asked = |asked: &Asked| asked.via == home && asked.sent == now && asked.tries > 0;
            let due = |asked: &&mut Asked| !asked.is_direct() && asked.ways.hub && !is_asked(asked);
            if let Some(asked) = self.asked.get_mut(&id).filter(due) {
                asked.tries = 0;
                asked.hedge = None;
                self.ask(core, attach, id);
            }
        }
    }

    /// An association has gone: what was asked over it is asked elsewhere, and
    /// what a hub relayed over it has lost its provider.
    pub(super) fn on_link_down(&mut self, core: &mut Core, attach: &Attach, link: LinkId, loss: Loss<'_>) {
        for asked in self.asked.values_mut().filter(|asked| asked.hedge == Some(link)) {
            asked.hedge = None;
        }
        for id in self.unaccepted() {
            let Some(asked) = self.asked.get_mut(&id).filter(|asked| asked.via == Some(link)) else { continue };
            asked.via = None;
            asked.phase = Phase::Homeless;
            core.timers.clear(Timer::Ask(id));
            if asked.is_direct() {
                core.set(Timer::Ask(id), SHORT_PAUSE);
            } else if attach.home().is_some_and(|home| home != link) {
                self.ask(core, attach, id);
            }
        }
        self.on_way_lost(core, attach, link, loss);
        self.reach_lost_providers(core, link);
        self.on_relay_lost(core, attach, link);
    }

    fn unaccepted(&self) -> Vec<RequestId> {
        let open = self.asked.iter().filter(|(_, asked)| !matches!(asked.phase, Phase::Receiving(_)));
        open.map(|(id, _)| *id).collect()
    }

    /// Asks once more for what a provider has failed to give: at once the first
    /// time, then not too often, as it may be the same provider again.
    pub(super) fn ask_anew(&mut self, core: &mut Core, attach: &Attach, id: RequestId) {
        let id = self.renumber(core, id);
        let Some(asked) = self.asked.get_mut(&id) else { return };
        asked.ways = Ways::default();
        if asked.numbers > 2 {
            return core.set(Timer::Ask(id), SHORT_PAUSE);
        }
        self.begin_search(core, attach, id);
    }

    /// Gives a request a new number, so that late answers to the old one do not count.
    pub(super) fn renumber(&mut self, core: &mut Core, id: RequestId) -> RequestId {
        match self.remove(core, id) {
            Some(asked) => self.number(core, asked),
            None => id,
        }
    }

    /// The owner no longer wants it. Returns false if the ticket is not here.
    pub(super) fn cancel(&mut self, core: &mut Core, ticket: Ticket) -> bool {
        let Some(id) = self.tickets.get(&ticket).copied() else { return false };
        self.stop_provider(core, id, Reason::Cancelled);
        self.fail(core, id, Reason::Cancelled);
        true
    }

    /// Ends everything.
    pub(super) fn leave(&mut self, core: &mut Core) {
        for id in self.asked.keys().copied().collect::<Vec<_>>() {
            self.stop_provider(core, id, Reason::Leaving);
            self.fail(core, id, Reason::Leaving);
        }
    }

    fn stop_provider(&mut self, core: &mut Core, id: RequestId, reason: Reason) {
        if let Some(Asked { phase: Phase::Receiving(receiving), .. }) = self.asked.get(&id) {
            core.send_reliably(receiving.link, id, &Message::Stop { id, reason });
        }
    }

    pub(super) fn fail(&mut self, core: &mut Core, id: RequestId, reason: Reason) {
        if let Some(asked) = self.asked.get(&id) {
            let detail = sentence(reason, asked, core);
            self.fail_because(core, id, reason, detail);
        }
    }

    pub(super) fn fail_because(&mut self, core: &mut Core, id: RequestId, reason: Reason, detail: String) {
        if let Some(asked) = self.remove(core, id) {
            let retry_after = asked.retry_after.filter(|_| matches!(reason, Reason::Busy | Reason::TooMany));
            core.conclude(asked.ticket, Event::Failed { ticket: asked.ticket, reason, detail, retry_after });
        }
    }

    pub(super) fn remove(&mut self, core: &mut Core, id: RequestId) -> Option<Asked> {
        let asked = self.asked.remove(&id)?;
        self.tickets.remove(&asked.ticket);
        self.early.take(id);
        let of_it = [Timer::Ask(id), Timer::Inquire(id), Timer::Deadline(id), Timer::Report(id), Timer::Receive(id)];
        for timer in of_it {
            core.timers.clear(timer);
        }
        Some(asked)
    }

    pub(super) fn status(&self, now: Time) -> Vec<RequestStatus> {
        let one = |asked: &Asked| {
            let receiving = match &asked.phase {
                Phase::Receiving(receiving) => Some(receiving),
                _ => None,
            };
            RequestStatus {
                ticket: asked.ticket,
                service: asked.wanted.service,
                provider: receiving.map(|receiving| receiving.provider),
                bytes: receiving.map_or(0, |receiving| receiving.bytes()),
                age: now.since(asked.commanded),
            }
        };
        self.asked.values().map(one).collect()
    }
}
