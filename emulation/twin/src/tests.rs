//! Twins of recordings that are made here.

use proptest::prelude::*;
use roost_recording::{Recording, StampedLine};
use roost_topology::file;
use serde_json::{Value, json};

use super::*;

/// A recording of the node `n{number}`, whose hub shares the host of `n1`.
#[derive(Clone)]
struct Maker {
    number: u8,
    begin_ms: u64,
    lines: Vec<Value>,
}

fn id(number: u8) -> String {
    format!("{number:02x}").repeat(16)
}

const HUB: u8 = 0xff;

impl Maker {
    fn new(number: u8, begin_ms: u64) -> Self {
        let mut maker = Self { number, begin_ms, lines: Vec::new() };
        maker.add(0.0, json!({ "record": "begin", "version": 1, "program": "0", "redacted": false }));
        maker.daemon(0.1, &format!("{number},0"));
        maker
    }

    fn add(&mut self, t: f64, mut line: Value) {
        line["t"] = json!(t);
        line["unix_ms"] = json!(self.begin_ms + (t * 1e3) as u64);
        self.lines.push(line);
    }

    fn daemon(&mut self, t: f64, cell: &str) {
        let number = self.number;
        self.add(
            t,
            json!({ "record": "daemon", "daemon": 0, "node": id(number), "name": format!("n{number}"),
            "role": "node", "cell": cell, "hub": id(HUB), "listen": [format!("udp://10.0.0.{number}:7700")] }),
        );
    }

    /// A connection that was up for a minute, and pings over it.
    fn remote(&mut self, number: u8, rtt_ms: f64) {
        let (name, role, address) = match number {
            HUB => ("base".to_owned(), "supernode", "10.0.0.1".to_owned()),
            _ => (format!("n{number}"), "node", format!("10.0.0.{number}")),
        };
        self.add(
            0.2,
            json!({ "record": "connection", "daemon": 0, "node": id(number), "name": name, "role": role,
            "transport": "udp", "address": format!("udp://{address}:7700"), "since_s": 60.0, "rtt_ms": rtt_ms + 9.0,
            "sent_bytes": 0, "received_bytes": 0, "lost_packets": 0 }),
        );
        for extra in [3.0, 0.0, 1.0] {
            self.add(0.3, json!({ "record": "ping", "daemon": 0, "node": id(number), "rtt_ms": rtt_ms + extra }));
        }
    }

    fn request(&mut self, t: f64, request: u64, target: u8) {
        let began_ms = self.begin_ms + (t * 1e3) as u64;
        self.add(
            t,
            json!({ "record": "request", "daemon": 0, "request": { "event": "began", "schema": 2,
            "request": request, "began_unix_ms": began_ms, "service": "video", "area": { "at": format!("{target},0") },
            "transports": ["udp"], "reflect": "if-busy", "duration_ms": 5000, "timeout_ms": 25_000 } }),
        );
        self.add(
            t + 5.5,
            json!({ "record": "request", "daemon": 0, "request": { "event": "ended", "schema": 2,
            "request": request, "outcome": "completed", "elapsed_ms": 5400.0, "summary": { "provider": id(target),
            "cell": format!("{target},0"), "transport": "udp", "relayed": false, "bytes": 9, "packets": 9, "lost": 0,
            "reordered": 0, "duplicates": 0, "unread": 0, "jitter_ms": 0.0, "first_byte_ms": 400.0,
            "elapsed_ms": 5400.0, "digest_ok": null, "complete": true } } }),
        );
    }

    /// A request that was answered: its service, payload bytes and packets, and first byte.
    fn answered(&mut self, t: f64, target: u8, (service, bytes, packets): (&str, u64, u64), first_byte_ms: f64) {
        let (request, began_ms) = (self.lines.len(), self.begin_ms + (t * 1e3) as u64);
        self.add(
            t,
            json!({ "record": "request", "daemon": 0, "request": { "event": "began", "schema": 2,
            "request": request, "began_unix_ms": began_ms, "service": service, "area": { "at": format!("{target},0") },
            "transports": ["udp"], "reflect": "if-busy", "timeout_ms": 20_000 } }),
        );
        self.add(
            t + 1.0,
            json!({ "record": "request", "daemon": 0, "request": { "event": "ended", "schema": 2,
            "request": request, "outcome": "completed", "elapsed_ms": first_byte_ms + 1.0, "summary": {
            "provider": id(target), "cell": format!("{target},0"), "transport": "udp", "relayed": false, "bytes": bytes,
            "packets": packets, "lost": 0, "reordered": 0, "duplicates": 0, "unread": 0, "jitter_ms": 0.0,
            "first_byte_ms": first_byte_ms, "elapsed_ms": first_byte_ms + 1.0, "digest_ok": null, "complete": true } } }),
        );
    }

    fn recording(&self) -> Recording {
        let mut lines: Vec<StampedLine> =
            self.lines.iter().map(|line| serde_json::from_value(line.clone()).unwrap()).collect();
        lines.sort_by(|a, b| a.t.total_cmp(&b.t));
        Recording { lines, remarks: Vec::new() }
    }
}

/// Three hosts on a star with legs of 10, 20 and 30 ms.
fn star() -> [Maker; 3] {
    let mut makers = [1, 2, 3].map(|number| Maker::new(number, 1_764_000_000_000 + u64::from(number) * 250));
    for maker in &mut makers {
        let own = maker.number;
        for other in (1..=3).filter(|other| *other != own) {
            maker.remote(other, f64::from(own + other) * 20.0);
        }
        maker.remote(HUB, if own == 1 { 0.2 } else { f64::from(own + 1) * 20.0 });
    }
    makers[1].request(2.0, 7, 3);
    makers[2].request(4.0, 8, 1);
    makers
}

fn twin(makers: &[Maker]) -> Twin {
    let recordings: Vec<Recording> = makers.iter().map(Maker::recording).collect();
    Twin::new(&observe(&recordings).unwrap())
}

#[test]
fn round_trips_become_legs_of_star() {
    let twin = twin(&star());
    assert!(twin.is_star && twin.hosts == 3, "{}", twin.topology);
    let topology = file::parse("twin", &twin.topology).unwrap();
    for (member, leg) in topology.nets[0].members.iter().zip([10.0, 20.0, 30.0]) {
        assert!((member.to_net.delay.as_secs_f64() * 1e3 - leg).abs() < 0.01, "{}", twin.topology);
    }
    assert!(twin.plan.contains("super_nodes = [\"n1\"]"), "{}", twin.plan);
    assert!(twin.plan.contains("timeout = \"20s\"\nstream = \"5s\""), "{}", twin.plan);
}

#[test]
fn connections_of_hubs_are_no_requests() {
    let [first, second, third] = star();
    let mut hub = Maker::new(HUB, first.begin_ms);
    let row = hub.lines.iter_mut().find(|line| line["record"] == "daemon").unwrap();
    (row["name"], row["role"], row["hub"]) = (json!("base"), json!("supernode"), json!(null));
    row["listen"] = json!(["udp://10.0.0.1:7700"]);
    // Nobody else is connected with the last one.
    (2..=4).for_each(|number| hub.remote(number, f64::from(number + 1) * 20.0));
    let rows = |makers: &[Maker]| twin(makers).rows;
    let without = rows(&[first.clone(), second.clone(), third.clone()]);
    assert_eq!(rows(&[first, second, third, hub]), without);
}

/// Streams tell the work of hosts only without the time of their own packets at the legs.
#[test]
fn fast_legs_are_not_overrated() {
    let rates = [f64::INFINITY, 2e6, 10e6];
    let delay = |a: u8, b: u8| if a == b { 0.0 } else { f64::from(a + b) * 10.0 };
    let at_leg = |bytes: f64, number: u8| bytes * 8e3 / rates[usize::from(number) - 1];
    let mut makers = star();
    let pairs = (1..=3_u8).flat_map(|own| (1..=3).map(move |target| (own, target)));
    for (own, target) in pairs.filter(|(own, target)| own != target) {
        let asked = delay(own, 1) + delay(1, target) + at_leg(250.0, own) + at_leg(250.0, target);
        // Packets leave one leg while they come to the next one.
        let answer = |bytes: f64, last: f64| {
            let slower = at_leg(bytes, own).max(at_leg(bytes, target));
            asked + delay(target, own) + slower + at_leg(last, own).min(at_leg(last, target))
        };
        let maker = &mut makers[usize::from(own) - 1];
        for number in 0..20 {
            let (t, work_ms) = (10.0 + f64::from(number) * 2.0, 1.5 + f64::from(number % 5) * 0.2);
            maker.answered(t, target, ("track", 250, 1), answer(560.0, 340.0) + work_ms);
            maker.answered(t, target, ("video", 1130, 1), answer(1440.0, 1220.0) + work_ms);
            maker.answered(t, target, ("sensor", 10_000, 0), answer(10_600.0, 1514.0) + work_ms);
        }
    }
    let twin = twin(&makers);
    let topology = file::parse("twin", &twin.topology).unwrap();
    for (member, bps) in topology.nets[0].members.iter().zip(rates).skip(1) {
        for link in [&member.to_net, &member.from_net] {
            assert!((link.rate.bps() as f64 / bps - 1.0).abs() < 0.07, "{}", twin.topology);
        }
    }
}

#[test]
fn recordings_are_aligned_by_clocks() {
    let twin = twin(&star());
    let rows: Vec<&RequestRow> = twin.rows.iter().filter(|row| row.time_s >= 0.0).collect();
    // n1 begins at 0, the others a quarter of a second later each.
    let told: Vec<_> = rows.iter().map(|row| (row.time_s, row.node.as_str(), row.target.as_str())).collect();
    assert_eq!(told, [(2.25, "n2", "n3"), (4.5, "n3", "n1")]);
    assert_eq!((rows[0].recorded.as_deref(), rows[0].latency_ms), (Some("completed"), Some(400.0)));
    // Connections of the beginning are made in a warm-up.
    assert_eq!(twin.rows.len() - rows.len(), 3);
    assert!(twin.plan.contains("warm_up = "), "{}", twin.plan);
}

#[test]
fn other_distances_become_links() {
    let mut makers = star();
    makers[0].remote(2, 10.0);
    makers[1].remote(1, 10.0);
    let twin = twin(&makers);
    assert!(!twin.is_star, "{}", twin.topology);
    let topology = file::parse("twin", &twin.topology).unwrap();
    let net = &topology.nets[topology.net_index("path-n1-n2").unwrap()];
    let delay = net.members[0].to_net.delay + net.members[1].from_net.delay;
    assert_eq!(delay.as_millis(), 5);
    assert_eq!(topology.hosts.iter().filter(|host| host.class.as_deref() == Some("router")).count(), 3);
}

#[test]
fn any_names_make_valid_topologies() {
    let long = "a".repeat(40);
    let names = [["net", "x", "x.edge"], ["a-b", "c", "a"], [&long, &format!("{long}1"), &format!("{long}2")]];
    for (names, rtt_ms) in names.into_iter().flat_map(|names| [(names, 10.0), (names, 60.0)]) {
        let mut makers = star();
        for maker in &mut makers {
            maker
                .lines
                .iter_mut()
                .filter(|line| line["node"] == json!(id(2)))
                .for_each(|line| line["name"] = json!(names[1]));
            maker
                .lines
                .iter_mut()
                .filter(|line| line["node"] == json!(id(1)))
                .for_each(|line| line["name"] = json!(names[0]));
            maker
                .lines
                .iter_mut()
                .filter(|line| line["node"] == json!(id(3)))
                .for_each(|line| line["name"] = json!(names[2]));
        }
        makers[0].remote(2, rtt_ms);
        for line in
            makers[0].lines.iter_mut().filter(|line| line["node"] == json!(id(2)) && line["record"] == "connection")
        {
            line["name"] = json!(names[1]);
        }
        let twin = twin(&makers);
        assert_eq!(twin.is_star, rtt_ms == 60.0);
        let read = file::parse("twin", &twin.topology);
        assert!(read.is_ok(), "{read:?} of {}", twin.topology);
    }
}

#[test]
fn moves_and_absences_are_replayed() {
    let mut makers = star();
    makers[1].daemon(6.0, "9,9");
    makers[2].add(20.0, json!({ "record": "gone", "daemon": 0 }));
    makers[2].daemon(26.0, "3,0");
    makers[0].add(40.0, json!({ "record": "end", "why": "x" }));
    let twin = twin(&makers);
    assert!(file::parse("twin", &twin.topology).is_ok(), "{}", twin.topology);
    assert!(twin.topology.contains("{ at = \"6.250s\", position = [9500, 9500] }"), "{}", twin.topology);
    assert!(
        twin.plan.contains("at = \"20.000s\"\nkill = \"n3\"") && twin.plan.contains("at = \"26.500s\"\nstart = \"n3\"")
    );
}

#[test]
fn slow_daemons_were_not_gone() {
    let plan = |started: [u64; 3]| {
        let mut makers = star();
        for (t, started) in [1.0, 26.0, 30.0].into_iter().zip(started) {
            makers[2].daemon(t, "3,0");
            makers[2].lines.last_mut().unwrap()["started_unix_s"] = json!(started);
        }
        makers[2].add(20.0, json!({ "record": "gone", "daemon": 0, "silent_s": 10.0 }));
        makers[0].add(40.0, json!({ "record": "end", "why": "x" }));
        twin(&makers).plan
    };
    assert!(!plan([5, 5, 5]).contains("kill"));
    let restarted = plan([5, 9, 9]);
    // The recording of n3 begins half a second late, and a look is half a second late in the mean.
    assert!(
        restarted.contains("at = \"10.000s\"\nkill") && restarted.contains("at = \"26.500s\"\nstart"),
        "{restarted}"
    );
    let quick = plan([5, 5, 9]);
    assert!(quick.contains("at = \"29.000s\"\nkill") && quick.contains("at = \"30.500s\"\nstart"), "{quick}");
}

#[test]
fn requests_keep_their_time_outs() {
    let mut makers = star();
    let shorter = makers[1].lines.iter_mut().find(|line| line["request"]["event"] == "began").unwrap();
    shorter["request"]["timeout_ms"] = json!(7_000);
    let twin = twin(&makers);
    let times: Vec<_> = twin.rows.iter().filter(|row| row.time_s >= 0.0).map(|row| row.timeout_s).collect();
    assert_eq!(times, [Some(2.0), None]);
}

#[test]
fn nodes_behind_one_address_stay_apart() {
    let mut makers = star();
    for maker in &mut makers {
        for line in &mut maker.lines {
            let text = line.to_string().replace("10.0.0.2", "10.0.0.1");
            *line = serde_json::from_str(&text).unwrap();
        }
    }
    let twin = twin(&makers);
    assert_eq!(twin.hosts, 4, "{}", twin.topology);
    assert!(twin.plan.contains("super_nodes = [\"base\"]"), "{}", twin.plan);
}

#[test]
fn useless_recordings_are_refused() {
    let [first, ..] = star();
    assert_eq!(observe(&[]).unwrap_err(), TwinError::Nothing);
    let alone = Maker::new(1, 0).recording();
    assert_eq!(observe(&[alone]).unwrap_err(), TwinError::Nodes(1));
    let mut no_hub = first.clone();
    no_hub.lines.retain(|line| line["node"] != json!(id(HUB)));
    assert_eq!(observe(&[no_hub.recording()]).unwrap_err(), TwinError::NoHub);
    let one_host = Twin::new(&observe(&[first.recording()]).unwrap());
    assert!(one_host.remarks.iter().any(|remark| remark.contains("n2, n3 nothing was recorded")), "{one_host:?}");
}

#[test]
fn twin_of_moved_hosts_is_doubtful() {
    let mut makers = star();
    assert!(!twin(&makers).remarks.iter().any(|remark| remark.contains("moved")));
    makers[1].daemon(30.0, "40,0");
    let remarks = twin(&makers).remarks;
    assert!(remarks.iter().any(|remark| remark.starts_with("n2 moved: ")), "{remarks:?}");
}

#[test]
fn comparison_counts_what_both_tell() {
    let twin = twin(&star());
    let request = |node: &str, target: &str, t: f64, first_byte_ms: f64| {
        serde_json::from_value(json!({ "t": t, "node": node, "class": "node", "service": "video", "target": target,
            "outcome": "completed", "first_byte_ms": first_byte_ms, "elapsed_ms": 5400.0, "bytes": 9, "relayed": false }))
        .unwrap()
    };
    let run = [request("n3", "n1", 4.51, 420.0), request("n2", "n3", 2.26, 410.0)];
    let compared = compare(&twin.rows, &run);
    assert_eq!(compared.agreement(), Agreement::TooFew, "{compared:?}");
    let all = compared.rows.last().unwrap();
    assert_eq!((all.requests, all.recorded, all.replayed), (2, 2, 2));
    assert!((all.ratio().unwrap() - 415.0 / 400.0).abs() < 1e-9);
    let verdicts: Vec<RowVerdict> = compared.rows.iter().map(ComparisonRow::verdict).collect();
    assert_eq!(verdicts, [RowVerdict::Median(Agreement::TooFew), RowVerdict::Completions(Agreement::TooFew)]);
    let half = compare(&twin.rows, &run[..1]);
    assert!(half.missing == 1 && half.agreement() == Agreement::Differs);
    assert_eq!(compare(&[], &[]).agreement(), Agreement::TooFew);
}

#[test]
fn medians_agree_to_a_tenth() {
    let row = |number: u32| RequestRow {
        time_s: f64::from(number),
        node: "n1".to_owned(),
        service: "video".to_owned(),
        target: "n2".to_owned(),
        stream_s: None,
        transport: None,
        timeout_s: None,
        recorded: Some("completed".to_owned()),
        latency_ms: Some(400.0),
        bytes: None,
    };
    let agreement = |count: u32, first_byte_ms: f64| {
        let request = |number: u32| {
            serde_json::from_value(json!({ "t": f64::from(number), "node": "n1", "class": "node", "service": "video",
                "target": "n2", "outcome": "completed", "first_byte_ms": first_byte_ms, "elapsed_ms": 5400.0, "bytes": 9,
                "relayed": false }))
            .unwrap()
        };
        let rows: Vec<RequestRow> = (0..count).map(row).collect();
        compare(&rows, &(0..count).map(request).collect::<Vec<_>>()).agreement()
    };
    assert_eq!(agreement(20, 436.0), Agreement::Agrees);
    assert_eq!([agreement(20, 444.0), agreement(20, 356.0)], [Agreement::Differs; 2]);
    assert_eq!(agreement(19, 444.0), Agreement::TooFew);
}

#[test]
fn files_of_one_host_are_merged() {
    let [first, second, third] = star();
    let mut later = Maker::new(2, second.begin_ms + 20_000);
    later.remote(3, 100.0);
    later.daemon(1.0, "9,9");
    later.request(3.0, 1, 3);
    for makers in [[&first, &second, &third, &later], [&later, &third, &second, &first]] {
        let twin = twin(&makers.map(Clone::clone));
        let times: Vec<_> = twin.rows.iter().filter(|row| row.time_s >= 0.0).map(|row| row.time_s).collect();
        assert_eq!(times, [2.25, 4.5, 23.25], "{:?}", twin.rows);
        assert!(twin.topology.contains("{ at = \"21.250s\", position = [9500, 9500] }"), "{}", twin.topology);
    }
    let mut twice = second.clone();
    twice.begin_ms += 1_000;
    let recordings = [&first, &second, &twice].map(|maker| {
        let mut maker = maker.clone();
        maker.add(9.0, json!({ "record": "end", "why": "x" }));
        maker.recording()
    });
    assert_eq!(observe(&recordings).unwrap_err(), TwinError::Twice("n2".to_owned()));
}

#[test]
fn request_under_way_is_replayed_once() {
    let [first, mut second, third] = star();
    let began = json!({ "event": "began", "schema": 2, "request": 90, "began_unix_ms": second.begin_ms + 9_000,
        "service": "video", "area": { "at": "3,0" }, "transports": ["udp"], "reflect": "never" });
    second.add(9.0, json!({ "record": "request", "daemon": 0, "request": began }));
    let mut later = Maker::new(2, second.begin_ms + 20_000);
    later.add(0.2, json!({ "record": "request", "daemon": 0, "request": began }));
    later.add(
        5.0,
        json!({ "record": "request", "daemon": 0, "request": { "event": "ended", "schema": 2, "request": 90,
            "outcome": "cancelled", "elapsed_ms": 16_000.0 } }),
    );
    let twin = twin(&[first, second, third, later]);
    let rows: Vec<_> = twin.rows.iter().filter(|row| row.time_s > 5.0).collect();
    assert_eq!((rows.len(), rows[0].time_s, rows[0].stream_s), (1, 9.25, Some(16.0)), "{rows:?}");
}

#[test]
fn recordings_of_other_times_are_refused() {
    let [first, second, third] = star();
    let moved = |maker: &Maker, begin_ms: u64| {
        let mut moved = Maker { begin_ms, lines: Vec::new(), ..maker.clone() };
        for line in &maker.lines {
            moved.add(line["t"].as_f64().unwrap(), line.clone());
        }
        moved
    };
    let recordings = |makers: [&Maker; 3]| makers.map(|maker| maker.recording());
    let unset = moved(&third, 1_000);
    let refused = observe(&recordings([&first, &second, &unset])).unwrap_err();
    assert_eq!(refused, TwinError::Apart("n3".to_owned()));
    let eight_days = moved(&second, first.begin_ms + 8 * 86_400_000);
    let refused = observe(&recordings([&first, &second, &eight_days])).unwrap_err();
    let (first, last) = ("n1".to_owned(), "n2".to_owned());
    assert_eq!(refused, TwinError::TooLong { days: 8, first, last });
}

#[test]
fn legs_without_a_triangle_are_assumed() {
    let [first, ..] = star();
    let twin = twin(&[first]);
    let delays: Vec<_> = twin.values.iter().filter(|value| value.what == "delay").collect();
    assert!(delays.iter().all(|value| value.certainty == Certainty::Assumed), "{delays:?}");
    assert!(twin.remarks.iter().any(|remark| remark.contains("n1, n2, n3 are assumed")), "{:?}", twin.remarks);
    assert!(!twin.topology.contains("explain"), "{}", twin.topology);
}

#[test]
fn streams_last_while_they_are_viewed() {
    let mut makers = star();
    let hour_ms = 3_600_000.0;
    for line in makers.iter_mut().flat_map(|maker| &mut maker.lines) {
        let request = &mut line["request"];
        if request["event"] == "began" {
            request.as_object_mut().unwrap().remove("duration_ms");
        } else if request["event"] == "ended" {
            *request = json!({ "event": "ended", "schema": 2, "request": request["request"], "outcome": "cancelled",
                "elapsed_ms": hour_ms });
        }
    }
    makers[2].lines.retain(|line| line["request"]["event"] != "ended");
    makers[2].add(64.0, json!({ "record": "end", "why": "x" }));
    let twin = twin(&makers);
    let streams: Vec<_> = twin.rows.iter().filter(|row| row.time_s >= 0.0).map(|row| row.stream_s).collect();
    // The second one began 4 s after its recording, whose end cuts it.
    assert_eq!(streams, [Some(3600.0), Some(60.0)]);
}

proptest! {
    #[test]
    fn parts_of_recordings_make_valid_files(kept in proptest::collection::vec(any::<bool>(), 48), far in 0.0..1e7_f64) {
        let mut makers = star();
        makers[0].remote(2, far);
        for maker in &mut makers {
            let mut kept = kept.iter().cycle().skip(usize::from(maker.number));
            maker.lines.retain(|line| line["record"] == "begin" || *kept.next().unwrap());
        }
        let recordings: Vec<Recording> = makers.iter().map(Maker::recording).collect();
        if let Ok(observed) = observe(&recordings) {
            let twin = Twin::new(&observed);
            let files = twin.files().unwrap();
            prop_assert_eq!(read_rows(&files[2].1).unwrap(), twin.rows);
            // No topology has a delay of more than an hour.
            if far < 3.6e6 {
                let read = file::parse("twin", &twin.topology);
                prop_assert!(read.is_ok(), "{read:?} of {}", twin.topology);
            }
        }
    }
}
