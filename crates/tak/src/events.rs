//! The events by which TAK is shown the marks of the overlay.

use std::time::{Duration, Instant};

use roost_services::track::cot::{self, CotDetail, CotEvent, CotPoint};
use roost_wire::{ExactPosition, Service};

use crate::clock::Clock;
use crate::kinds;
use crate::marks::{Content, Marks, Node, Target, position_at};

/// Hubs hold a node that they do not hear for a lease, a minute by default; an event of it lasts a little longer.
pub(crate) const LEAST_LIFE: Duration = Duration::from_secs(75);
/// Signs of life and ends are for now.
const SHORT_LIFE: Duration = Duration::from_secs(20);
const MAX_LIFE: Duration = Duration::from_secs(3600);

/// A mark at a moment, for a connection on which its event has to last for `life`.
#[derive(Clone, Copy)]
pub(crate) struct Moment<'a> {
    pub(crate) clock: Clock,
    pub(crate) life: Duration,
    pub(crate) marks: &'a Marks,
}

impl Moment<'_> {
    /// The event of a mark, if there is such a mark.
    pub(crate) fn event(&self, uid: &str) -> Option<String> {
        let mark = self.marks.get(uid)?;
        Some(match &mark.content {
            Content::Own(node) => self.node(uid, node, mark.changed, &own_details(&node.name)),
            Content::Node(node) => self.node(uid, node, mark.changed, &[]),
            Content::Camera(node) => self.camera(uid, node, mark.changed),
            Content::Target(target) => self.target(uid, target),
            Content::Gone(kind) => self.end(uid, kind),
        })
    }

    fn node(&self, uid: &str, node: &Node, since: Instant, more: &[CotDetail]) -> String {
        let position = position_at(node, since, self.clock);
        let event = CotEvent {
            kind: self.marks.node_kind(node).to_owned(),
            how: how(node).to_owned(),
            point: Some(point(&position)),
            speed_mps: position.speed_mps,
            course_deg: position.course_deg,
            callsign: Some(node.name.clone()),
            ..self.lasting(uid)
        };
        let offers = names(&node.services);
        let offers = if offers.is_empty() { "no services".to_owned() } else { offers };
        let remarks = remarks(format!("{offers}; node {:?} of Roost", node.id));
        let details = [&[remarks], more].concat();
        cot::write(&event, self.clock.wall, &details)
    }

    fn camera(&self, uid: &str, node: &Node, since: Instant) -> String {
        let position = position_at(node, since, self.clock);
        let callsign = format!("{} video", node.name);
        let event = CotEvent {
            kind: kinds::CAMERA.to_owned(),
            how: how(node).to_owned(),
            point: Some(point(&position)),
            callsign: Some(callsign.clone()),
            ..self.lasting(uid)
        };
        let azimuth = position.course_deg.unwrap_or(0.0);
        let sensor = CotDetail::new("sensor")
            .with("azimuth", format!("{azimuth:.0}"))
            .with("fov", "45")
            .with("range", "100")
            .with("type", "r-e")
            .with("displayMagneticReference", "0")
            .with("hideFov", "true");
        let mut details = vec![sensor, remarks(format!("camera of {}", node.name))];
        details.extend(self.marks.rules.video_url.as_deref().map(|server| video(server, uid, node, &callsign)));
        cot::write(&event, self.clock.wall, &details)
    }

    fn target(&self, uid: &str, target: &Target) -> String {
        let Target { record, kind, callsign, provider } = target;
        let point = CotPoint { lat: record.lat, lon: record.lon, hae_m: record.alt_m, ce_m: None };
        let event = CotEvent {
            kind: kind.clone(),
            how: "m-g".to_owned(),
            point: Some(point),
            speed_mps: record.speed_mps,
            course_deg: record.course_deg,
            callsign: Some(callsign.clone()),
            ..self.lasting(uid)
        };
        cot::write(&event, self.clock.wall, &[remarks(format!("track from {provider}"))])
    }

    fn end(&self, uid: &str, kind: &str) -> String {
        let link = CotDetail::new("link").with("uid", uid).with("type", kind).with("relation", "p-p");
        self.short(&format!("{uid}-end"), kinds::DELETE, &[link, CotDetail::new("__forcedelete")])
    }

    pub(crate) fn short(&self, uid: &str, kind: &str, details: &[CotDetail]) -> String {
        let stale = self.clock.wall.checked_add(SHORT_LIFE);
        let event = CotEvent {
            uid: uid.to_owned(),
            kind: kind.to_owned(),
            how: "h-g-i-g-o".to_owned(),
            stale,
            ..CotEvent::default()
        };
        cot::write(&event, self.clock.wall, details)
    }

    fn lasting(&self, uid: &str) -> CotEvent {
        let stale = self.clock.wall.checked_add(self.life.clamp(LEAST_LIFE, MAX_LIFE));
        CotEvent { uid: uid.to_owned(), stale, ..CotEvent::default() }
    }
}

/// Measured by a receiver, or told by a person.
const fn how(node: &Node) -> &'static str {
    if node.is_exact { "m-g" } else { "h-e" }
}

fn point(position: &ExactPosition) -> CotPoint {
    CotPoint { lat: position.at.lat(), lon: position.at.lon(), hae_m: position.altitude_m, ce_m: position.accuracy_m }
}

fn names(services: &[Service]) -> String {
    services.iter().map(Service::name).collect::<Vec<_>>().join(", ")
}

fn remarks(text: String) -> CotDetail {
    CotDetail { text, ..CotDetail::new("remarks") }
}

/// Servers take the connection for one of a person's device only with all of these.
fn own_details(name: &str) -> [CotDetail; 3] {
    let takv = CotDetail::new("takv")
        .with("device", "Roost node")
        .with("platform", "Roost")
        .with("os", std::env::consts::OS)
        .with("version", env!("CARGO_PKG_VERSION"));
    let droid = CotDetail::new("uid").with("Droid", name);
    [takv, droid, CotDetail::new("__group").with("name", "Cyan").with("role", "Team Member")]
}

fn video(server: &str, uid: &str, node: &Node, alias: &str) -> CotDetail {
    let path = format!("/video/from/{}", escaped(&node.name));
    let (scheme, rest) = server.split_once("://").unwrap_or(("rtsp", server));
    let (address, port) = rest.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')).unwrap_or((rest, "554"));
    let entry = CotDetail::new("ConnectionEntry")
        .with("uid", uid)
        .with("alias", alias)
        .with("protocol", scheme)
        .with("address", address)
        .with("port", port)
        .with("path", path.clone())
        .with("networkTimeout", "12000")
        .with("bufferTime", "-1")
        .with("rtspReliable", "1")
        .with("roverPort", "-1")
        .with("ignoreEmbeddedKLV", "false");
    let detail =
        CotDetail::new("__video").with("uid", uid).with("url", format!("{}{path}", server.trim_end_matches('/')));
    CotDetail { parts: vec![entry], ..detail }
}

/// A name as a part of a path: names of certificates need no change, and those that a hub tells may be anything.
fn escaped(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    name.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
