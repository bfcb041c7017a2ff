//! The machine from outside: what comes in, and what each connection is told.

use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use roost_client::{Candidate, WatchEvent};
use roost_services::track::cot::{self, CotEvent, CotPoint};
use roost_services::track::record::TrackRecord;
use roost_wire::NodeId;
use serde_json::json;

use crate::clock::Clock;
use crate::contacts::ConnectionId;
use crate::gateway::{Carriage, Gateway, Requested};
use crate::marks::{MAX_MARKS, MarkRules};
use crate::totals::Totals;

const FIRST: ConnectionId = ConnectionId(1);
const SECOND: ConnectionId = ConnectionId(2);

struct World {
    gateway: Gateway,
    clock: Clock,
}

impl World {
    fn new() -> Self {
        Self::at_rate(1e9)
    }

    fn at_rate(bits_per_second: f64) -> Self {
        let rules = MarkRules {
            types: vec!["uav*=a-f-A-M-F-Q".parse().unwrap()],
            video_url: Some("rtsp://10.0.0.3:8554".to_owned()),
        };
        let clock = Clock::now();
        Self { gateway: Gateway::new(rules, bits_per_second, clock), clock }
    }

    fn connected() -> Self {
        let mut world = Self::new();
        world.gateway.connect(FIRST, Carriage::Stream, world.clock);
        world
    }

    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.clock.at += Duration::from_secs(1);
            self.clock.wall += Duration::from_secs(1);
            self.gateway.on_timeout(self.clock);
        }
    }

    fn watch(&mut self, present: &[Candidate], gone: &[NodeId]) {
        let change = WatchEvent {
            schema: 2,
            number: 1,
            present: present.to_vec(),
            gone: gone.to_vec(),
            gone_names: Default::default(),
        };
        self.gateway.on_watch(&change, self.clock);
    }

    fn sent(&mut self, id: ConnectionId) -> Vec<String> {
        let sent = std::iter::from_fn(|| self.gateway.poll_transmit(id, self.clock));
        sent.map(|xml| String::from_utf8(xml.to_vec()).unwrap()).collect()
    }

    fn events(&mut self, id: ConnectionId) -> Vec<CotEvent> {
        self.sent(id).iter().map(|xml| cot::read(xml).unwrap()).collect()
    }

    fn receive(&mut self, id: ConnectionId, xml: &str) {
        self.gateway.receive(id, None, xml.as_bytes(), self.clock);
    }

    fn records(&mut self) -> Vec<TrackRecord> {
        let records = std::iter::from_fn(|| self.gateway.poll_record(self.clock));
        records.map(|line| TrackRecord::read(&line).unwrap()).collect()
    }

    fn totals(&self) -> Totals {
        self.gateway.totals()
    }
}

fn id(digit: char) -> NodeId {
    serde_json::from_value(json!(digit.to_string().repeat(32))).unwrap()
}

fn candidate(digit: char, name: &str, services: &[&str], position: serde_json::Value) -> Candidate {
    let mut row = json!({
        "node": digit.to_string().repeat(32), "cell": "1,2", "services": services, "streams_left": 1,
        "uplink_left_kbps": null, "addresses": [], "record": "1.1", "name": name,
        "place": { "lat": 47.5, "lon": 8.5 }
    });
    if !position.is_null() {
        row["position"] = position;
    }
    serde_json::from_value(row).unwrap()
}

fn contact(uid: &str, clock: Clock) -> String {
    let event = CotEvent {
        uid: uid.to_owned(),
        kind: "a-f-G-U-C".to_owned(),
        how: "m-g".to_owned(),
        stale: Some(clock.wall + Duration::from_secs(60)),
        point: Some(CotPoint { lat: 47.25, lon: 8.25, hae_m: None, ce_m: None }),
        callsign: Some("VIPER".to_owned()),
        ..CotEvent::default()
    };
    cot::write(&event, clock.wall, &[])
}

#[test]
fn node_is_a_contact() {
    let mut world = World::connected();
    world.watch(&[candidate('a', "truck", &["sensor", "track"], json!(null))], &[]);
    let [event] = &world.events(FIRST)[..] else { panic!() };
    assert_eq!((event.kind.as_str(), event.callsign.as_deref()), ("a-f-G-U", Some("truck")));
    assert_eq!(event.uid, format!("roost-{}", "a".repeat(32)));
    let point = event.point.unwrap();
    assert_eq!((point.lat, point.lon, point.hae_m), (47.5, 8.5, None));
    let life = event.stale.unwrap().duration_since(event.time.unwrap()).unwrap();
    assert_eq!(life, Duration::from_secs(75));
}

#[test]
fn types_follow_rules_and_motion() {
    let mut world = World::connected();
    let flying = json!({ "lat": 47.0, "lon": 8.0, "alt_m": 900.0, "speed_mps": 117.0, "course_deg": 90.0 });
    world.watch(
        &[
            candidate('a', "uav7", &["track"], flying.clone()),
            candidate('b', "jet", &["track"], flying),
            candidate('c', "rain", &["sensor"], json!(null)),
        ],
        &[],
    );
    let kinds: Vec<String> = world.events(FIRST).into_iter().map(|event| event.kind).collect();
    assert_eq!(kinds, ["a-f-A-M-F-Q", "a-f-A", "a-f-G-E-S"]);
}

#[test]
fn camera_has_its_video_address() {
    let mut world = World::connected();
    world.watch(&[candidate('a', "mast", &["video"], json!(null))], &[]);
    let sent = world.sent(FIRST);
    let camera = sent.iter().find(|xml| xml.contains("b-m-p-s-p-loc")).unwrap();
    assert!(camera.contains(r#"<__video uid="roost-"#), "{camera}");
    assert!(camera.contains(r#"url="rtsp://10.0.0.3:8554/video/from/mast""#), "{camera}");
    assert!(
        camera.contains(r#"address="10.0.0.3" port="8554" path="/video/from/mast""#) && camera.contains("<sensor ")
    );
    world.pass(3);
    world.sent(FIRST);
    world.watch(&[candidate('a', "mast", &["sensor"], json!(null))], &[]);
    let ended: Vec<_> = world.events(FIRST).into_iter().filter(|event| event.kind == "t-x-d-d").collect();
    assert_eq!(ended[0].link, Some(format!("roost-{}-video", "a".repeat(32))));
}

#[test]
fn moving_node_is_told_ahead() {
    let mut world = World::connected();
    let north = json!({ "lat": 47.0, "lon": 8.0, "speed_mps": 20.0, "course_deg": 0.0 });
    world.watch(&[candidate('a', "car", &["track"], north)], &[]);
    assert_eq!(world.events(FIRST)[0].point.unwrap().lat, 47.0);
    world.pass(10);
    let later = world.events(FIRST);
    let lat = later.last().unwrap().point.unwrap().lat;
    assert!((lat - 47.0 - 200.0 / 111_200.0).abs() < 1e-5, "{lat}");
}

#[test]
fn node_that_goes_is_ended_once() {
    let mut world = World::connected();
    world.watch(&[candidate('a', "truck", &["track"], json!(null))], &[]);
    world.sent(FIRST);
    world.pass(3);
    world.watch(&[], &[id('a')]);
    let [end] = &world.events(FIRST)[..] else { panic!() };
    assert_eq!((end.kind.as_str(), end.link.clone()), ("t-x-d-d", Some(format!("roost-{}", "a".repeat(32)))));
    world.pass(200);
    assert!(world.events(FIRST).iter().all(|event| event.kind == "t-x-c-t"), "pings alone");
    world.gateway.connect(SECOND, Carriage::Stream, world.clock);
    assert!(world.events(SECOND).is_empty());
}

#[test]
fn still_node_is_told_again() {
    let mut world = World::connected();
    world.watch(&[candidate('a', "truck", &["track"], json!(null))], &[]);
    world.pass(80);
    let told = world.events(FIRST).into_iter().filter(|event| event.kind == "a-f-G-U").count();
    world.pass(30);
    let again = world.events(FIRST).into_iter().filter(|event| event.kind == "a-f-G-U").count();
    assert_eq!((told, again), (1, 1));
}

#[test]
fn nothing_new_is_not_told() {
    let mut world = World::connected();
    let truck = candidate('a', "truck", &["track"], json!(null));
    world.watch(std::slice::from_ref(&truck), &[]);
    world.sent(FIRST);
    world.pass(3);
    world.watch(&[truck], &[]);
    assert!(world.sent(FIRST).is_empty());
}

#[test]
fn ping_has_one_answer() {
    let mut world = World::connected();
    let ping = "<event version='2.0' uid='takPing' type='t-x-c-t' how='m-g'><point lat='0' lon='0'/></event>";
    world.receive(FIRST, &ping.repeat(100));
    let [pong] = &world.events(FIRST)[..] else { panic!() };
    assert_eq!((pong.kind.as_str(), pong.uid.as_str()), ("t-x-c-t-r", "takPong"));
}

#[test]
fn contact_becomes_a_record() {
    let mut world = World::connected();
    world.receive(FIRST, &contact("ANDROID-1", world.clock));
    assert!(world.records().is_empty(), "nobody requests them");
    world.gateway.offer_records(Requested::Yes, world.clock);
    let [record] = &world.records()[..] else { panic!() };
    assert_eq!((record.id.as_str(), record.lat), ("ANDROID-1", 47.25));
    assert_eq!(record.raw, contact("ANDROID-1", world.clock));
    world.pass(16);
    assert_eq!(world.records().len(), 1, "late requesters get it, too");
    world.pass(60);
    world.records();
    world.pass(20);
    assert!(world.records().is_empty() && world.totals().contacts == 0, "it is stale");
}

/// An event by which TAK removes a contact.
fn end_of(uid: &str) -> String {
    format!("<event uid='end' type='t-x-d-d'><point lat='0' lon='0'/><detail><link uid='{uid}'/></detail></event>")
}

#[test]
fn deleted_contacts_leave_nothing() {
    let mut world = World::connected();
    world.gateway.offer_records(Requested::Yes, world.clock);
    let (whole, end) = (contact("phone-NUMBER", world.clock), end_of("phone-NUMBER"));
    for number in 0..100_000 {
        let number = number.to_string();
        world.receive(FIRST, &whole.replace("NUMBER", &number));
        world.receive(FIRST, &end.replace("NUMBER", &number));
        world.gateway.poll_record(world.clock);
        while world.gateway.poll_news().is_some() {}
    }
    assert_eq!((world.totals().contacts, world.gateway.remembered_records()), (0, 0));
}

#[test]
fn long_hows_are_refused() {
    let mut world = World::connected();
    let long = contact("ANDROID-1", world.clock).replace("how=\"m-g\"", &format!("how=\"{}\"", "m".repeat(8000)));
    world.receive(FIRST, &long);
    assert_eq!((world.totals().contacts, world.totals().refused.get("malformed")), (0, Some(&1)));
}

#[test]
fn crowded_provider_leaves_room() {
    let mut world = World::connected();
    let target = |world: &mut World, digit, number: usize| {
        let line = format!(r#"{{"id":"t{number}","lat":47.1,"lon":8.1,"source":"gpsd"}}"#);
        world.gateway.on_line(id(digit), "p", line.as_bytes(), world.clock);
    };
    for number in 0..MAX_MARKS + 100 {
        target(&mut world, 'b', number);
        world.sent(FIRST);
    }
    assert_eq!((world.totals().marks, world.totals().not_shown), (MAX_MARKS, 100));
    world.watch(&[candidate('a', "truck", &["track"], json!(null))], &[]);
    target(&mut world, 'c', 1);
    let shown: Vec<String> = world.events(FIRST).into_iter().map(|event| event.uid).collect();
    assert_eq!(shown, [format!("roost-{}", "a".repeat(32)), format!("roost-{}-t1", "c".repeat(32))]);
    assert_eq!((world.totals().marks, world.gateway.remembered_events()), (MAX_MARKS, MAX_MARKS));
}

#[test]
fn reconnected_server_keeps_its_contacts() {
    let mut world = World::connected();
    world.receive(FIRST, &contact("ANDROID-1", world.clock));
    world.gateway.disconnect(FIRST);
    world.gateway.connect(SECOND, Carriage::Stream, world.clock);
    world.receive(SECOND, &contact("ANDROID-1", world.clock));
    world.receive(SECOND, &end_of("ANDROID-1"));
    assert_eq!(world.totals().contacts, 0);
}

#[test]
fn own_events_do_not_come_back() {
    let mut world = World::connected();
    world.watch(&[candidate('a', "truck", &["track"], json!(null))], &[]);
    for xml in world.sent(FIRST) {
        world.receive(FIRST, &xml);
    }
    assert_eq!((world.totals().contacts, world.totals().refused["echo"]), (0, 1));
}

#[test]
fn two_gateways_make_no_loop() {
    let mut near = World::connected();
    let mut far = World::connected();
    near.receive(FIRST, &contact("ANDROID-1", near.clock));
    near.gateway.offer_records(Requested::Yes, near.clock);
    let line = near.records()[0].line(SystemTime::UNIX_EPOCH);
    far.gateway.on_line(id('b'), "near", &line, far.clock);
    let shown = far.sent(FIRST);
    let event = cot::read(&shown[0]).unwrap();
    assert_eq!((event.uid.as_str(), event.kind.as_str()), ("roost-cot-ANDROID-1", "a-f-G-U-C"));
    assert_eq!(event.callsign.as_deref(), Some("VIPER"));
    // The first gateway is at the same server.
    near.receive(FIRST, &shown[0]);
    assert_eq!(near.totals().contacts, 1);
    far.pass(3);
    far.receive(FIRST, &contact("ANDROID-1", far.clock));
    let [end] = &far.events(FIRST)[..] else { panic!() };
    assert_eq!(end.link.as_deref(), Some("roost-cot-ANDROID-1"));
    far.gateway.on_line(id('b'), "near", &line, far.clock);
    far.pass(5);
    assert!(far.events(FIRST).is_empty());
}

#[test]
fn fast_track_stays_within_the_rate() {
    let mut world = World::at_rate(20_000.0);
    world.gateway.connect(FIRST, Carriage::Stream, world.clock);
    world.watch(&[candidate('a', "truck", &["track"], json!(null))], &[]);
    let mut bytes = 0;
    for number in 0..1200 {
        let line = format!(r#"{{"id":"t{}","lat":47.1,"lon":8.1,"source":"gpsd"}}"#, number % 7);
        world.gateway.on_line(id('b'), "p", line.as_bytes(), world.clock);
        world.clock.at += Duration::from_millis(50);
        world.clock.wall += Duration::from_millis(50);
        world.gateway.on_timeout(world.clock);
        bytes += world.sent(FIRST).iter().map(String::len).sum::<usize>();
    }
    // A minute, and the burst of two seconds.
    assert!(bytes * 8 < 62 * 20_000 + 8_000, "{bytes}");
    assert!(world.totals().replaced > 0);
}

#[test]
fn datagrams_are_events() {
    let mut world = World::new();
    world.gateway.connect(FIRST, Carriage::Datagrams, world.clock);
    world.receive(FIRST, &contact("ANDROID-1", world.clock));
    world.gateway.receive(FIRST, None, b"\xbf\x01\xbfprotobuf", world.clock);
    assert_eq!((world.totals().contacts, world.totals().refused["malformed"]), (1, 1));
    world.pass(60);
    assert!(world.events(FIRST).is_empty(), "a group needs no pings");
    world.watch(&[candidate('a', "truck", &["track"], json!(null))], &[]);
    let sent = world.sent(FIRST);
    assert!(sent[0].starts_with("<?xml ") && cot::read(&sent[0]).is_ok(), "{sent:?}");
}

proptest! {
    #[test]
    fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..500), text in ".{0,200}") {
        let mut world = World::connected();
        world.gateway.connect(SECOND, Carriage::Datagrams, world.clock);
        for id in [FIRST, SECOND] {
            world.gateway.receive(id, None, &bytes, world.clock);
            world.receive(id, &format!("<event uid='{text}' type='a-f' time='{text}'>{text}</event>"));
        }
        world.gateway.on_line(id('c'), &text, &bytes, world.clock);
        world.gateway.on_line(id('c'), &text, text.as_bytes(), world.clock);
        world.pass(2);
        world.sent(FIRST);
    }

    #[test]
    fn hostile_names_stay_text(name in ".{0,80}", target in ".{1,60}") {
        let mut world = World::connected();
        world.watch(&[candidate('a', &name, &["video"], json!(null))], &[]);
        let line = json!({ "id": target, "lat": 1.0, "lon": 2.0, "source": "cot", "raw": name }).to_string();
        world.gateway.on_line(id('c'), &name, line.as_bytes(), world.clock);
        for xml in world.sent(FIRST) {
            prop_assert!(cot::read(&xml).is_ok(), "{}", xml);
            prop_assert_eq!(xml.matches("</event>").count(), 1);
        }
    }
}
