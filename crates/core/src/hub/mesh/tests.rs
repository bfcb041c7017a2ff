use super::*;
use crate::hub::testing::*;

fn meshed() -> Bench {
    let mut config = HubConfig::new(node(200), HubKind::SuperNode, 1);
    config.addresses = vec![address(200)];
    config.siblings = vec![vec![address(100)], vec![address(200)]];
    Bench::young(config)
}

#[test]
fn sibling_dials_back_off() {
    let mut bench = meshed();
    assert_eq!(bench.dialled.len(), 1, "its own address is not dialled");
    let mut pauses = Vec::new();
    for _ in 0..9 {
        let (dial, _) = bench.dialled.pop().unwrap();
        let before = bench.now;
        bench.input(Input::DialFailed { dial, reason: "nobody there".to_owned(), refused: false });
        while bench.dialled.is_empty() {
            bench.now = bench.hub.poll_deadline().unwrap().at;
            bench.input(Input::Timeout);
        }
        pauses.push(bench.now.since(before));
    }
    assert!(pauses[0] >= FIRST_PAUSE * 3 / 4 && pauses[0] <= FIRST_PAUSE * 5 / 4, "{pauses:?}");
    assert!(pauses[8] >= MAX_PAUSE * 3 / 4 && pauses[8] <= MAX_PAUSE * 5 / 4, "{pauses:?}");
}

#[test]
fn short_connections_back_off_too() {
    let mut bench = meshed();
    let mut pauses = Vec::new();
    for _ in 0..9 {
        let (dial, _) = bench.dialled.pop().unwrap();
        let before = bench.now;
        let connection = bench.up_over(100, Role::SuperNode, address(100), Some(dial));
        bench.down(connection);
        while bench.dialled.is_empty() {
            bench.now = bench.hub.poll_deadline().unwrap().at;
            bench.input(Input::Timeout);
        }
        pauses.push(bench.now.since(before));
    }
    assert!(pauses[0] <= FIRST_PAUSE * 5 / 4 && pauses[8] >= MAX_PAUSE * 3 / 4, "{pauses:?}");
    // A sibling that has stayed is dialled soon.
    let (dial, _) = bench.dialled.pop().unwrap();
    let connection = bench.up_over(100, Role::SuperNode, address(100), Some(dial));
    bench.now = bench.now + MAX_PAUSE;
    bench.down(connection);
    assert!(bench.hub.poll_deadline().unwrap().at <= bench.now + FIRST_PAUSE * 5 / 4);
}

#[test]
fn status_shows_outage_and_reason() {
    let mut bench = meshed();
    let (dial, _) = bench.dialled.pop().unwrap();
    let began = bench.now;
    bench.input(Input::DialFailed { dial, reason: "nobody there".to_owned(), refused: false });
    bench.wait(Duration::from_secs(3));
    let sibling = bench.hub.status(bench.now).hubs.remove(0);
    assert_eq!((sibling.down, sibling.reason.as_deref()), (Some(bench.now.since(began)), Some("nobody there")));
    let (dial, _) = bench.dialled.pop().unwrap();
    bench.up_over(100, Role::SuperNode, address(100), Some(dial));
    let sibling = bench.hub.status(bench.now).hubs.remove(0);
    assert_eq!((sibling.up.is_some(), sibling.down, sibling.reason), (true, None, None));
}

#[test]
fn own_identity_is_not_redialed() {
    let mut bench = meshed();
    let (dial, _) = bench.dialled.pop().unwrap();
    bench.up_over(200, Role::SuperNode, address(100), Some(dial));
    assert_eq!(bench.hub.status(bench.now).hubs, []);
    assert!(bench.events.contains(&HubEvent::SameIdentity { address: address(100) }));
    bench.wait(Duration::from_secs(60));
    assert!(bench.dialled.is_empty());
}

#[test]
fn silent_sibling_is_redialed() {
    let mut bench = meshed();
    let (dial, _) = bench.dialled.pop().unwrap();
    let connection = bench.up_over(100, Role::SuperNode, address(100), Some(dial));
    assert_eq!(bench.hub.status(bench.now).hubs[0].node, Some(node(100)));
    let pings = bench.wait(Duration::from_secs(10));
    assert!(pings.contains(&(connection, Message::Probe(ProbeMessage::Ping(1)))));
    bench.say(connection, ProbeMessage::Pong(0));
    assert!(bench.closed.is_empty());
    bench.wait(Duration::from_secs(30));
    assert_eq!(bench.closed[0].0, connection);
    assert_eq!(bench.dialled.len(), 1);
}
