//! The part of the overlay that TAK is shown: nodes, their cameras, and the targets of tracks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use roost_client::{Candidate, Service, Status};
use roost_geo::{is_moving, predict};
use roost_services::track::cot;
use roost_services::track::record::{Origin, TrackRecord};
use roost_wire::{ExactPosition, LatLon, NodeId};

use crate::clock::Clock;
use crate::contacts::{Contacts, OWN_PREFIX};
use crate::kinds::{self, Flight, Role, TypeRule};
use crate::outgoing::Uid;

/// The most nodes, cameras and targets that are shown.
pub(crate) const MAX_MARKS: usize = 8192;

/// The longest uid of a target, bytes.
const MAX_UID_BYTES: usize = 128;

/// A target without news for this time is gone.
const TARGET_LIFE: Duration = Duration::from_secs(60);
/// The time for which the end of a mark is kept, for connections that are busy.
const GONE_LIFE: Duration = Duration::from_secs(120);

/// A node, as far as the local API tells.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) id: NodeId,
    pub(crate) name: String,
    pub(crate) position: ExactPosition,
    /// False of the middle of a cell.
    pub(crate) is_exact: bool,
    pub(crate) services: Vec<Service>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Target {
    pub(crate) record: TrackRecord,
    pub(crate) kind: String,
    pub(crate) callsign: String,
    pub(crate) provider: String,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Content {
    /// The node of this gateway, which is how TAK servers know the connection.
    Own(Node),
    Node(Node),
    Camera(Node),
    Target(Box<Target>),
    Gone(String),
}

#[derive(Clone, Debug)]
pub(crate) struct Mark {
    pub(crate) content: Content,
    pub(crate) changed: Instant,
    /// The node whose track has the target; `None` of nodes and cameras.
    provider: Option<NodeId>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct MarkRules {
    pub(crate) types: Vec<TypeRule>,
    /// `rtsp://HOST:8554`: where the videos of nodes are served.
    pub(crate) video_url: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Marks {
    marks: BTreeMap<Uid, Mark>,
    /// The targets of each provider, with those that are gone.
    counts: BTreeMap<NodeId, usize>,
    /// Targets that had to leave for others.
    evicted: Vec<Uid>,
    pub(crate) rules: MarkRules,
    refused: u64,
}

impl Node {
    fn of_candidate(candidate: &Candidate) -> Option<Self> {
        let place = candidate.place?;
        let (position, is_exact) = match candidate.position {
            Some(exact) => {
                let at = LatLon::new(exact.lat, exact.lon).ok()?;
                let (altitude_m, accuracy_m) = (exact.alt_m, exact.accuracy_m);
                let (course_deg, speed_mps) = (exact.course_deg, exact.speed_mps);
                (ExactPosition { at, altitude_m, accuracy_m, course_deg, speed_mps }, true)
            }
            None => (ExactPosition::new(LatLon::new(place.lat, place.lon).ok()?), false),
        };
        let name = candidate.name.clone().unwrap_or_else(|| format!("{:?}", candidate.node));
        Some(Self { id: candidate.node, name, position, is_exact, services: candidate.services.clone() })
    }

    fn of_status(status: &Status) -> Option<Self> {
        let place = status.place?;
        let position = ExactPosition::new(LatLon::new(place.lat, place.lon).ok()?);
        let (name, services) = (status.name.clone(), status.services.clone());
        Some(Self { id: status.node, name, position, is_exact: false, services })
    }

    fn has_video(&self) -> bool {
        self.services.iter().any(|service| service.base() == Service::Video)
    }

    pub(crate) fn flight(&self) -> Flight {
        Flight { altitude_m: self.position.altitude_m, speed_mps: self.position.speed_mps }
    }

    fn role(&self) -> Role {
        let is_sensor = |service: &Service| service.base() == Service::Sensor;
        if !self.services.is_empty() && self.services.iter().all(is_sensor) { Role::Sensor } else { Role::Unit }
    }
}

impl Mark {
    const fn new(content: Content, changed: Instant) -> Self {
        Self { content, changed, provider: None }
    }

    pub(crate) const fn is_gone(&self) -> bool {
        matches!(self.content, Content::Gone(_))
    }

    /// True of marks that are sent once for each change: the records of a target come again, and an end is an end.
    pub(crate) const fn is_sent_once(&self) -> bool {
        matches!(self.content, Content::Gone(_) | Content::Target(_))
    }

    /// True of a node that moves: its place is another one at each event.
    pub(crate) fn is_moving(&self) -> bool {
        match &self.content {
            Content::Own(node) | Content::Node(node) | Content::Camera(node) => is_moving(&node.position),
            Content::Target(_) | Content::Gone(_) => false,
        }
    }
}

impl Marks {
    pub(crate) const fn new(rules: MarkRules) -> Self {
        Self { marks: BTreeMap::new(), counts: BTreeMap::new(), evicted: Vec::new(), rules, refused: 0 }
    }

    pub(crate) fn get(&self, uid: &str) -> Option<&Mark> {
        self.marks.get(uid)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Uid, &Mark)> {
        self.marks.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.marks.len()
    }

    pub(crate) const fn refused(&self) -> u64 {
        self.refused
    }

    /// Shows a node as it is now. Returns the uids of what has changed.
    pub(crate) fn present(&mut self, candidate: &Candidate, now: Instant) -> Vec<Uid> {
        match Node::of_candidate(candidate) {
            // The daemon's status tells of this node.
            _ if self.is_own(candidate.node) => Vec::new(),
            Some(node) => self.show(Content::Node(node.clone()), &node, now),
            None => self.gone(candidate.node, now),
        }
    }

    pub(crate) fn own(&mut self, status: &Status, now: Instant) -> Vec<Uid> {
        match Node::of_status(status) {
            Some(node) => self.show(Content::Own(node.clone()), &node, now),
            None => Vec::new(),
        }
    }

    fn show(&mut self, content: Content, node: &Node, now: Instant) -> Vec<Uid> {
        let camera = camera_uid(node.id);
        let has_camera = self.rules.video_url.is_some() && node.has_video();
        let shown = self.put(node_uid(node.id), Mark::new(content, now));
        let camera = if has_camera {
            self.put(camera, Mark::new(Content::Camera(node.clone()), now))
        } else {
            self.end(&camera, now)
        };
        shown.into_iter().chain(camera).collect()
    }

    fn is_own(&self, node: NodeId) -> bool {
        self.get(&node_uid(node)).is_some_and(|mark| matches!(mark.content, Content::Own(_)))
    }

    pub(crate) fn gone(&mut self, node: NodeId, now: Instant) -> Vec<Uid> {
        if self.is_own(node) {
            return Vec::new();
        }
        [node_uid(node), camera_uid(node)].into_iter().filter_map(|uid| self.end(&uid, now)).collect()
    }

    /// Shows the target of a record, unless TAK has the contact itself.
    pub(crate) fn target(&mut self, line: TrackLine<'_>, contacts: &Contacts, now: Instant) -> Option<Uid> {
        let TrackLine { provider, name, record } = line;
        let is_cot = record.source == Origin::Cot;
        if is_cot && (record.id.starts_with(OWN_PREFIX) || contacts.contains(&record.id)) {
            return None;
        }
        let uid = if is_cot { cot_uid(&record.id) } else { format!("{OWN_PREFIX}{provider}-{}", record.id).into() };
        if uid.len() > MAX_UID_BYTES {
            self.refused += 1;
            return None;
        }
        let event = Some(&record.raw).filter(|_| is_cot).and_then(|raw| cot::read(raw).ok());
        let callsign = event.as_ref().and_then(|event| event.callsign.clone()).unwrap_or_else(|| record.id.clone());
        let flight = Flight { altitude_m: record.alt_m, speed_mps: record.speed_mps };
        let sent_kind = event.map(|event| event.kind).filter(|kind| kind.starts_with("a-") && kinds::is_type(kind));
        let chosen = kinds::named_kind(&self.rules.types, &callsign).map(str::to_owned);
        let kind = chosen.or(sent_kind).unwrap_or_else(|| kinds::of_target(flight).to_owned());
        let target = Target { record, kind, callsign, provider: name.to_owned() };
        let mark = Mark { provider: Some(provider), ..Mark::new(Content::Target(Box::new(target)), now) };
        self.put(uid, mark)
    }

    /// Ends the mark of a contact that TAK tells of itself.
    pub(crate) fn contact_came(&mut self, uid: &str, now: Instant) -> Option<Uid> {
        self.end(&cot_uid(uid), now)
    }

    /// Ends targets without news, and forgets what has ended long ago. Returns both, the forgotten ones last.
    pub(crate) fn expire(&mut self, now: Instant) -> (Vec<Uid>, Vec<Uid>) {
        let is_over = |mark: &Mark, life: Duration| mark.changed + life <= now;
        let (mut ended, mut forgotten) = (Vec::new(), Vec::new());
        for (uid, mark) in &self.marks {
            match &mark.content {
                Content::Target(_) if is_over(mark, TARGET_LIFE) => ended.push(Arc::clone(uid)),
                Content::Gone(_) if is_over(mark, GONE_LIFE) => forgotten.push(Arc::clone(uid)),
                _ => {}
            }
        }
        for uid in &forgotten {
            self.remove(uid);
        }
        for uid in &ended {
            self.end(uid, now);
        }
        (ended, forgotten)
    }

    /// The uids of targets that had to leave since the last call.
    pub(crate) fn take_evicted(&mut self) -> Vec<Uid> {
        std::mem::take(&mut self.evicted)
    }

    fn put(&mut self, uid: Uid, mark: Mark) -> Option<Uid> {
        if !self.marks.contains_key(&uid) && !self.make_room(mark.provider) {
            self.refused += 1;
            return None;
        }
        // A node that moves is elsewhere by now, and a target lives by its records.
        let is_news = mark.is_moving() || matches!(mark.content, Content::Target(_));
        if !is_news && self.get(&uid).is_some_and(|before| before.content == mark.content) {
            return None;
        }
        self.remove(&uid);
        if let Some(provider) = mark.provider {
            *self.counts.entry(provider).or_default() += 1;
        }
        self.marks.insert(Arc::clone(&uid), mark);
        Some(uid)
    }

    fn remove(&mut self, uid: &Uid) {
        let Some(provider) = self.marks.remove(uid).and_then(|mark| mark.provider) else { return };
        if let Some(count) = self.counts.get_mut(&provider) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&provider);
            }
        }
    }

    /// Makes room among too many marks: the provider of the most targets loses one, or else gives no more. False if
    /// there is no room.
    fn make_room(&mut self, provider: Option<NodeId>) -> bool {
        if self.marks.len() < MAX_MARKS {
            return true;
        }
        let greatest = self.counts.iter().max_by_key(|(_, count)| **count).map(|(greatest, _)| *greatest);
        let Some(greatest) = greatest.filter(|greatest| Some(*greatest) != provider) else { return false };
        let crowd = self.marks.iter().filter(|(_, mark)| mark.provider == Some(greatest));
        let leaving = crowd.min_by_key(|(_, mark)| (!mark.is_gone(), mark.changed)).map(|(uid, _)| Arc::clone(uid));
        if let Some(uid) = leaving {
            self.remove(&uid);
            self.evicted.push(uid);
        }
        true
    }

    fn end(&mut self, uid: &Uid, now: Instant) -> Option<Uid> {
        let before = self.marks.get(uid)?;
        let kind = match &before.content {
            Content::Gone(_) => return None,
            Content::Own(node) | Content::Node(node) => self.node_kind(node).to_owned(),
            Content::Camera(_) => kinds::CAMERA.to_owned(),
            Content::Target(target) => target.kind.clone(),
        };
        let end = Mark { provider: before.provider, ..Mark::new(Content::Gone(kind), now) };
        self.put(Arc::clone(uid), end)
    }

    pub(crate) fn node_kind(&self, node: &Node) -> &str {
        let chosen = kinds::named_kind(&self.rules.types, &node.name);
        chosen.unwrap_or_else(|| kinds::of_node(node.flight(), node.role()))
    }
}

/// A record of a stream, with its provider.
pub(crate) struct TrackLine<'a> {
    pub(crate) provider: NodeId,
    pub(crate) name: &'a str,
    pub(crate) record: TrackRecord,
}

/// A position at `clock`, of a node that was seen at `since`.
pub(crate) fn position_at(node: &Node, since: Instant, clock: Clock) -> ExactPosition {
    predict(&node.position, clock.at.saturating_duration_since(since))
}

pub(crate) fn node_uid(node: NodeId) -> Uid {
    format!("{OWN_PREFIX}{node}").into()
}

fn camera_uid(node: NodeId) -> Uid {
    format!("{OWN_PREFIX}{node}-video").into()
}

/// A contact of TAK has one uid at all gateways.
fn cot_uid(uid: &str) -> Uid {
    format!("{OWN_PREFIX}cot-{uid}").into()
}
