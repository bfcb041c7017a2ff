use roost_results::record::RequestOutcome;

use super::*;
use crate::testing::folder_of_run;

fn description() -> Description {
    Description::read(folder_of_run("").path()).unwrap()
}

fn record(value: Value) -> Record {
    serde_json::from_value(value).unwrap()
}

fn request(node: &str, provider: Option<&str>) -> Record {
    record(json!({
        "record": "request", "t": 4.0, "node": node, "class": "node", "service": "video", "target": "c",
        "provider": provider, "outcome": if provider.is_some() { "completed" } else { "timed-out" },
        "first_byte_ms": 120.04, "elapsed_ms": 2500.0, "bytes": 9, "relayed": false,
    }))
}

fn sample(t: f64) -> Record {
    Record::Sample(SampleRecord { t, offered_bytes: (t * 1e6) as u64, active: 2, ..SampleRecord::default() })
}

#[test]
fn first_rows_are_the_network() {
    let description = description();
    let first = RunRows::new(&description).first();
    let sections = |section: &str| first.set.keys().filter(|key| key.starts_with(section)).count();
    let counted = ["host/", "lan/", "link/", "node/", "hub/"].map(sections);
    assert_eq!((counted, first.set.len()), ([5, 1, 5, 3, 2], 16));
    assert_eq!(first.set["node/a"]["cell"], json!("0,0"));
    assert_eq!(first.set["node/c"]["hubs"], json!(["r2", "r1"]));
    assert_eq!((&first.set["hub/r1"]["relation"], &first.set["hub/r1"]["up"]), (&json!("supernode"), &json!(true)));
    assert!(first.set["host/r1"]["at"][0].is_number() && first.set["lan/left"]["ground"][0].is_number());
}

#[test]
fn request_lasts_from_start_to_end() {
    let description = description();
    let mut rows = RunRows::new(&description);
    let [begins, ends] = <[Change; 2]>::try_from(rows.add(request("a", Some("c")))).unwrap();
    let row = &begins.set["request/1"];
    assert_eq!((begins.at_ms, ends.at_ms, ends.gone), (4000, 7500, vec!["request/1".to_owned()]));
    assert_eq!((&row["latency_ms"], &row["end_ms"]), (&json!(120.0), &json!(6500)));
    assert_eq!((&row["way"], &row["whole"]), (&json!(["right", "up", "left/r1", "left/a"]), &json!(true)));
    let [begins, _] = <[Change; 2]>::try_from(rows.add(request("b", None))).unwrap();
    let row = &begins.set["request/2"];
    assert_eq!((&row["outcome"], &row["latency_ms"]), (&json!(RequestOutcome::TimedOut.name()), &Value::Null));
    let Record::Request(relayed) = request("c", Some("a")) else { unreachable!() };
    let relayed = Record::Request(RequestRecord { relayed: true, provider: Some("b".to_owned()), ..relayed });
    let [begins, _] = <[Change; 2]>::try_from(rows.add(relayed)).unwrap();
    // Over r2, the first hub of c.
    assert_eq!(begins.set["request/3"]["way"], json!(["left/b", "left/r1", "up", "right"]));
}

#[test]
fn faults_come_at_their_times() {
    let description = description();
    let mut rows = RunRows::new(&description);
    assert_eq!(rows.add(sample(9.0)).len(), 1);
    // The lab records a fault of a link, too.
    let down = record(json!({ "record": "incident", "t": 10.0, "object": "up", "what": "up is down" }));
    let [down] = <[Change; 1]>::try_from(rows.add(down)).unwrap();
    assert_eq!((down.at_ms, &down.set["fault/1"]["what"]), (10_000, &json!("up is down")));
    assert_eq!(down.set["link/up"]["there"]["up"], json!(false));
    let later: Vec<Change> = rows.add(sample(21.0));
    let times: Vec<u64> = later.iter().map(|change| change.at_ms).collect();
    assert_eq!(times, [12_000, 15_000, 20_000, 21_000]);
    assert_eq!(later[0].set["node/a"]["state"], json!("dead"));
    assert_eq!(later[1].set["link/up"]["there"]["up"], json!(true));
    assert_eq!((&later[2].set["hub/r1"]["state"], &later[2].set["hub/r1"]["up"]), (&json!("frozen"), &json!(false)));
    assert_eq!(later[3].set["sample/self"]["offered_bps"], json!(8_000_000.0));
    let died = record(json!({ "record": "incident", "t": 22.0, "object": "r2-hub", "what": "died: it got SIGKILL" }));
    let [died] = <[Change; 1]>::try_from(rows.add(died)).unwrap();
    assert_eq!((&died.set["hub/r2"]["state"], &died.set["fault/5"]["object"]), (&json!("dead"), &json!("r2-hub")));
}

#[test]
fn movements_change_cells() {
    let description = description();
    let mut rows = RunRows::new(&description);
    let position = |node: &str| Record::Position(PositionRecord { t: 2.5, node: node.to_owned(), x: -3, y: 4 });
    let [moved] = <[Change; 1]>::try_from(rows.add(position("b"))).unwrap();
    assert_eq!((moved.at_ms, &moved.set["node/b"]["cell"]), (2500, &json!("-3,4")));
    assert_eq!(rows.add(position("nobody")), []);
}

#[test]
fn room_streams_and_link_totals() {
    let description = description();
    let mut rows = RunRows::new(&description);
    let stream = RoomStreamRecord {
        t: 1.0,
        node: "a".to_owned(),
        provider: "c".to_owned(),
        service: "video".to_owned(),
        first_packet_ms: Some(250.0),
        until: 9.0,
        ..RoomStreamRecord::default()
    };
    let [begins, ends] = <[Change; 2]>::try_from(rows.add(Record::RoomStream(stream.clone()))).unwrap();
    assert_eq!((begins.at_ms, ends.at_ms), (1250, 9000));
    assert_eq!(begins.set["stream/1"]["downstreams"][0]["node"], json!("a"));
    assert_eq!(rows.add(Record::RoomStream(RoomStreamRecord { first_packet_ms: None, ..stream })), []);
    let link = LinkRecord { link: "up".to_owned(), host: "r1".to_owned(), dropped_queue: 7, ..LinkRecord::default() };
    let [total] = <[Change; 1]>::try_from(rows.add(Record::Link(link))).unwrap();
    assert_eq!((total.at_ms, &total.set["total/up/r1/"]["dropped_queue"]), (0, &json!(7)));
}

#[test]
fn load_names_wires_of_the_page() {
    let description = description();
    let mut rows = RunRows::new(&description);
    let load = |link: &str, host: &str| {
        json!({ "link": link, "host": host, "direction": "to-net", "used": 0.5,
        "inside_bytes": 9, "dropped_queue": 1 })
    };
    let loads = [load("left", "a"), load("up", "r2"), load("nowhere", "a")];
    let [load] =
        <[Change; 1]>::try_from(rows.add(record(json!({ "record": "load", "t": 3.0, "links": loads })))).unwrap();
    let links = load.set["load/self"]["links"].as_array().unwrap();
    let named: Vec<&Value> = links.iter().map(|link| &link["link"]).collect();
    assert_eq!((load.at_ms, named), (3000, vec![&json!("left/a"), &json!("up")]));
}
