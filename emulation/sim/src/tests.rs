//! Whole plans in virtual time.

use std::path::Path;

use roost_experiment::{PlacedNode, Targets};
use roost_results::record;
use roost_topology::model::{Host, Net, NetMember};
use roost_wire::Cell;

use super::*;

mod shared_nets;

const STAR: &str = "
topology = { star = { nodes = 6, delay = '10ms', server_delay = '20ms' } }
architecture = 'super-node'
super_nodes = 2
duration = '20s'
stream = '2s'
timeout = '10s'
";

fn prepared(text: &str) -> Prepared {
    Prepared::from_text(text, Path::new("p.toml")).unwrap()
}

fn simulated(text: &str) -> SimOutcome {
    let outcome = simulate(&prepared(text), Detail::Packet).unwrap();
    assert_eq!((&outcome.violations[..], outcome.overflows), (&[][..], 0));
    assert!(outcome.requested > 0);
    outcome
}

/// Simulates a plan into a folder, and reads the results.
fn records(text: &str) -> roost_results::Results {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("out");
    assert_eq!(simulate_into(&prepared(text), Detail::Packet, &results).unwrap().violations, []);
    roost_results::read(&results).unwrap()
}

#[test]
fn a_quiet_network_completes_every_request() {
    for architecture in ["super-node", "client-server", "client-server-caching"] {
        for transport in ["paper", "udp", "tcp", "quic"] {
            let text = STAR.replace("super-node", architecture) + &format!("transport = '{transport}'\n");
            let outcome = simulated(&text);
            assert_eq!(outcome.completed, outcome.requested, "{architecture} over {transport}");
        }
    }
}

/// A TLS handshake with certificates of both sides and the hybrid key exchange, bytes.
const HANDSHAKE_BYTES: u64 = 2048 + 2310;

#[test]
fn one_of_two_nodes_dials() {
    let star = "topology = { star = { nodes = 9 } }\narchitecture = 'super-node'\nduration = '120s'\nidle = '2s'\n\
                [classes.star]\nmix = { image = 50, idle = 50 }\n";
    let outcome = simulated(star);
    let pairs = 8 * 7 / 2;
    let handshakes = outcome.shares.handshake_bytes / HANDSHAKE_BYTES;
    // Two nodes that request from each other at the same time both dial.
    assert!((pairs..=pairs + 2).contains(&handshakes), "{handshakes} handshakes of {pairs} pairs");
}

#[test]
fn fixed_handshake_fails_on_longer_path() {
    // 800 ms and 1 s one way: the three round trips of an object's handshake take 4.8 and 6 s.
    let completed = |delay: &str, more: &str| {
        let star = format!("{{ star = {{ nodes = 5, delay = '{delay}', server_delay = '{delay}' }} }}");
        let plan = format!(
            "topology = {star}\narchitecture = 'super-node'\nduration = '3m'\nstream = '2s'\ntimeout = '1m'\n{more}"
        );
        let outcome = simulated(&plan);
        outcome.completed as f64 / outcome.requested as f64
    };
    assert_eq!([completed("500ms", ""), completed("400ms", "handshake = '5s'\n")], [1.0, 1.0]);
    assert!(completed("500ms", "handshake = '5s'\n") < 0.8);
}

#[test]
fn moving_nodes_are_found_at_cell() {
    for architecture in ["super-node", "client-server", "client-server-caching", "super-node-multicast"] {
        let text = STAR.replace("super-node", architecture).replace("20s", "2m") + "[movement]\nspeed = 6.0\n";
        let asked = records(&text).requests;
        let found = asked.iter().filter(|request| request.provider.as_ref() == Some(&request.target)).count();
        // A node that steps while a request for its cell is on its way is not found.
        assert!(asked.len() > 50 && found * 100 >= asked.len() * 97, "{architecture}: {found} of {}", asked.len());
    }
}

#[test]
fn equal_seeds_repeat_every_packet() {
    let of = |seed| simulated(&format!("{STAR}seed = {seed}\n[[faults]]\nat = '5s'\nchange = 'net'\nloss = 0.05\n"));
    let (first, again, other) = (of(3), of(3), of(4));
    assert_eq!((first.trace_hash, first.by_service), (again.trace_hash, again.by_service));
    assert_ne!(first.trace_hash, other.trace_hash);
}

#[test]
fn detail_levels_agree_without_load() {
    let text = STAR.replace("duration = '20s'", "duration = '60s'") + "transport = 'quic'\n";
    let [packet, message] = [Detail::Packet, Detail::Message].map(|detail| simulate(&prepared(&text), detail).unwrap());
    assert_ne!(packet.trace_hash, message.trace_hash);
    let within = |a: f64, b: f64, band: f64| (a - b).abs() <= band * a.max(b);
    assert!(within(packet.completed as f64, message.completed as f64, 0.05), "{packet:?} {message:?}");
    for (name, fine) in &packet.by_service {
        let coarse = &message.by_service[name];
        assert!(within(fine.p50_ms.unwrap(), coarse.p50_ms.unwrap(), 0.2), "{name}: {fine:?} {coarse:?}");
    }
}

#[test]
fn latencies_are_those_of_the_links() {
    let outcome = simulated(&STAR.replace("super_nodes = 2", "super_nodes = 1"));
    // To the hub 20 ms, from there to the provider 20 ms, and 20 ms back; a node on the hub's host saves a
    // third. A first contact adds a handshake.
    let track = &outcome.by_service["track"];
    assert!((40.0..140.0).contains(&track.p50_ms.unwrap()), "{track:?}");
}

#[test]
fn simulated_records_read_like_emulated() {
    let results = records(STAR);
    assert_eq!(results.run.architecture, "super-node");
    assert!(results.run.verdict.valid && (results.run.ran_s - 20.0).abs() < 0.001 && results.run.drain_s > 0.0);
    assert!(results.samples.len() >= 20 && results.samples.windows(2).all(|pair| pair[0].t < pair[1].t));
    for link in &results.links {
        let dropped = link.dropped_queue + link.dropped_loss + link.dropped_down;
        assert_eq!(link.packets_in, link.packets_out + dropped + link.in_flight, "{link:?}");
    }
    let metrics = roost_results::metrics::Metrics::from_results(&results);
    assert_eq!(metrics.requests.completed as usize, results.requests.len());
    assert!(metrics.traffic.offered_bytes.unwrap() > 100_000);
}

#[test]
fn drain_end_cuts_running_requests() {
    let results = records(&format!("{STAR}drain = '1ms'\n"));
    assert!(results.requests.iter().any(|request| request.outcome == record::RequestOutcome::Cut));
    assert!(results.run.ran_s + results.run.drain_s < 20.01, "{:?}", results.run);
}

#[test]
fn overflow_invalidates_run() {
    let sound = simulated(STAR);
    assert!(sound.is_sound() && sound.overflow().is_none());
    let full = SimOutcome { overflows: 3, ..sound };
    assert!(!full.is_sound() && full.overflow().unwrap().contains("3 packets"));
}

#[test]
fn killed_home_is_replaced() {
    let results = records(&format!("{STAR}[[faults]]\nat = '6s'\nkill = 'node1'\nhub = true\n"));
    let completed = |from: f64, to: f64| {
        let within = |request: &&record::RequestRecord| request.t >= from && request.t < to;
        let requests: Vec<_> = results.requests.iter().filter(within).collect();
        (requests.iter().filter(|request| request.outcome == record::RequestOutcome::Completed).count(), requests.len())
    };
    let (before, all_before) = completed(0.0, 3.0);
    let (after, all_after) = completed(14.0, 20.0);
    assert_eq!(before, all_before);
    assert!(after * 10 >= all_after * 9 && after > 5, "{after} of {all_after}");
    assert!(results.incidents.iter().any(|incident| incident.what == "the hub on node1 is killed"));
}

#[test]
fn killed_node_requests_after_restart() {
    let faults = "[[faults]]\nat = '5s'\nkill = 'node3'\n[[faults]]\nat = '9s'\nstart = 'node3'\n";
    let results = records(&format!("{STAR}{faults}"));
    let own = || results.requests.iter().filter(|request| request.node == "node3");
    assert!(own().all(|request| request.t <= 5.0 || request.t >= 9.0));
    assert!(own().any(|request| request.t >= 9.0 && request.outcome == record::RequestOutcome::Completed));
    // The record is used in vain meanwhile: the lease lasts a minute.
    assert!(results.requests.iter().any(|request| request.target == "node3" && request.t > 4.0));
}

/// The number of requests in a time span, and of those completed.
fn from_to(results: &roost_results::Results, from: f64, to: f64) -> (usize, usize) {
    let within = results.requests.iter().filter(|request| request.t >= from && request.t < to);
    let is_completed = |request: &&record::RequestRecord| request.outcome == record::RequestOutcome::Completed;
    (within.clone().filter(is_completed).count(), within.count())
}

#[test]
fn frozen_home_is_replaced_and_resumes() {
    let faults = "[[faults]]\nat = '6s'\nfreeze = 'node1'\nhub = true\n\
        [[faults]]\nat = '16s'\nthaw = 'node1'\nhub = true\n";
    for transport in ["udp", "tcp", "quic"] {
        let text =
            STAR.replace("duration = '20s'", "duration = '30s'") + &format!("transport = '{transport}'\n{faults}");
        let results = records(&text);
        // The standby serves without new registrations.
        let (completed, all) = from_to(&results, 8.0, 30.0);
        assert!(completed == all && all > 10, "{transport}: {completed} of {all}");
        let told: Vec<_> = results.incidents.iter().map(|incident| incident.what.as_str()).collect();
        assert_eq!(told, ["the hub on node1 stands still", "the hub on node1 goes on"]);
    }
}

#[test]
fn frozen_node_resumes_after_thaw() {
    let faults = "[[faults]]\nat = '4s'\nfreeze = 'node3'\n[[faults]]\nat = '9s'\nthaw = 'node3'\n";
    for transport in ["udp", "tcp", "quic"] {
        let results = records(&format!("{STAR}transport = '{transport}'\n{faults}"));
        let ended = |request: &&record::RequestRecord| request.t + request.elapsed_ms / 1e3;
        let own = || results.requests.iter().filter(|request| request.node == "node3");
        assert!(own().all(|request| !(4.001..9.0).contains(&ended(&request))), "{transport}");
        let again = own().filter(|request| request.outcome == record::RequestOutcome::Completed && request.t > 9.0);
        assert!(again.count() > 0, "{transport}");
        let asked = results.requests.iter().filter(|request| request.target == "node3" && request.t > 9.5);
        assert!(
            asked.clone().count() > 0
                && asked.clone().all(|request| request.outcome == record::RequestOutcome::Completed)
        );
    }
}

#[test]
fn permanent_freeze_or_kill_violates_nothing() {
    simulated(&format!("{STAR}[[faults]]\nat = '4s'\nfreeze = 'node3'\n"));
    let faults = "[[faults]]\nat = '4s'\nfreeze = 'node3'\n[[faults]]\nat = '6s'\nkill = 'node3'\n\
        [[faults]]\nat = '8s'\nstart = 'node3'\n[[faults]]\nat = '9s'\nthaw = 'node3'\n";
    let results = records(&format!("{STAR}{faults}"));
    let own = results.requests.iter().filter(|request| request.node == "node3" && request.t > 8.0);
    assert!(own.clone().count() > 0 && own.clone().all(|request| request.outcome == record::RequestOutcome::Completed));
}

#[test]
fn node_and_link_may_flap() {
    let flapping = "[[faults]]\nat = '2s'\nevery = '4s'\nkill = 'node3'\n\
        [[faults]]\nat = '3s'\nevery = '4s'\nstart = 'node3'\n\
        [[faults]]\nat = '4s'\nevery = '5s'\ntimes = 3\ndown = 'net'\nfrom = 'node2'\n\
        [[faults]]\nat = '6s'\nevery = '5s'\ntimes = 3\nup = 'net'\nfrom = 'node2'\n";
    let results = records(&format!("{STAR}{flapping}"));
    let killed = results.incidents.iter().filter(|incident| incident.what == "the node on node3 is killed");
    assert_eq!(killed.map(|incident| incident.t).collect::<Vec<_>>(), [2.0, 6.0, 10.0, 14.0, 18.0]);
    let (completed, all) = from_to(&results, 0.0, 20.0);
    assert!(completed * 2 > all, "{completed} of {all}");
}

#[test]
fn warm_up_keeps_only_connections() {
    let cold = records(STAR);
    let warm = records(&format!("{STAR}warm_up = '30s'\n"));
    assert_eq!((warm.run.warm_up_s, cold.run.warm_up_s), (30.0, 0.0));
    let asked = |results: &roost_results::Results| {
        let first = |node: &str| results.requests.iter().find(|request| request.node == node).unwrap().clone();
        ["node2", "node5"].map(first).map(|request| (request.service, request.target))
    };
    assert_eq!(asked(&warm), asked(&cold));
    assert!(warm.requests.iter().all(|request| request.t >= 0.0 && request.t <= 20.0));
    // No request needs a handshake any more.
    let slowest = |results: &roost_results::Results| {
        let tracks = results.requests.iter().filter(|request| request.service == "track");
        tracks.filter_map(|request| request.first_byte_ms).fold(0.0, f64::max)
    };
    assert!(slowest(&warm) < slowest(&cold) && slowest(&warm) < 100.0, "{} {}", slowest(&warm), slowest(&cold));
}

#[test]
fn multicast_discovers_with_or_without_hubs() {
    let alone = simulated(&STAR.replace("super-node", "multicast").replace("super_nodes = 2\n", ""));
    assert_eq!(alone.completed, alone.requested);
    // From the requester to the provider and back, without a hub: 40 ms and the time to answer.
    let p50 = alone.by_service["track"].p50_ms.unwrap();
    assert!((40.0..80.0).contains(&p50), "{p50}");
    let dead = "[[faults]]\nat = '6s'\nkill = 'node1'\nhub = true\n[[faults]]\nat = '6s'\nkill = 'node2'\nhub = true\n";
    let results = records(&(STAR.replace("super-node", "super-node-multicast") + dead));
    let (completed, all) = from_to(&results, 6.0, 20.0);
    assert!(completed == all && all > 5, "{completed} of {all}");
}

#[test]
fn leaving_hub_redirects_its_nodes() {
    let outcome = simulated(&format!("{STAR}[[faults]]\nat = '8s'\nstop = 'node1'\nhub = true\n"));
    assert!(outcome.completed * 20 >= outcome.requested * 17, "{} of {}", outcome.completed, outcome.requested);
}

#[test]
fn link_outage_ends_requests_with_reason() {
    let faults = "[[faults]]\nat = '5s'\ndown = 'net'\n[[faults]]\nat = '12s'\nup = 'net'\n";
    let outcome = simulated(&format!("{STAR}{faults}"));
    let (completed, failed, cut) = outcome
        .by_service
        .values()
        .fold((0, 0, 0), |sum, service| (sum.0 + service.completed, sum.1 + service.failed, sum.2 + service.cut));
    assert_eq!((completed + failed + cut, cut), (outcome.requested, 0));
    assert!(completed > 10 && failed > 0);
}

#[test]
fn invalid_plan_fails_before_run() {
    let lonely = STAR.replace("timeout = '10s'", "timeout = '10s'\n[[faults]]\nat = '1ms'\ndown = 'nut'");
    assert!(Prepared::from_text(&lonely, Path::new("p.toml")).is_err());
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("x"), "").unwrap();
    let error = simulate_into(&prepared(STAR), Detail::Packet, folder.path()).unwrap_err().to_string();
    assert!(error.contains("is not empty: name another folder"), "{error}");
}

/// A star of so many nodes in which each node has a hundred targets: plans relate every node to every other,
/// which takes too long for ten thousand.
fn crowd(nodes: usize) -> Prepared {
    let text = STAR.replace("nodes = 6", "nodes = 102").replace("duration = '20s'", "duration = '2s'");
    let mut prepared = prepared(&text);
    let (hosts, places) = (prepared.network.hosts.clone(), prepared.placement.nodes.clone());
    let topology = &mut prepared.topology;
    for number in hosts.len()..=nodes {
        let name = format!("more{number}");
        topology.hosts.push(Host { name: name.clone(), ..hosts[0].clone() });
        let member = NetMember { host: number, ..topology.nets[0].members[0].clone() };
        topology.nets[0].members.push(member);
        let cell = Cell::new((number % 1_000) as i32, 20 + (number / 1_000) as i32);
        let targets: Targets =
            (0..100).map(|step| (number + step * 37) % nodes).filter(|target| *target + 1 != number).collect();
        let hubs = if number % 2 == 0 { vec![0, 1] } else { vec![1, 0] };
        let place = PlacedNode { host: number, name, cell, targets, hubs, ..places[0].clone() };
        prepared.placement.nodes.push(place);
    }
    prepared.network = prepared.topology.clone();
    prepared
}

#[test]
fn crowded_lan_violates_nothing() {
    let SimOutcome { violations, requested, by_service, .. } = simulate(&crowd(200), Detail::Message).unwrap();
    assert_eq!(violations, []);
    let ended = by_service.values().map(|one| one.completed + one.failed + one.cut).sum::<u64>();
    assert!(requested > 200 && ended == requested, "{ended} of {requested}");
}

/// A plan on two parallel LANs, of which the second falls silent for a while.
#[test]
fn silent_net_fails_over_to_other() {
    let text =
        format!("{STAR}transport = 'quic'\n[[faults]]\nat = '6s'\ndown = 'net'\n[[faults]]\nat = '12s'\nup = 'net'\n");
    let run = |nets: usize| {
        let mut prepared = prepared(&text);
        let first = prepared.topology.nets[0].clone();
        for number in 1..nets {
            let mut net = Net { name: format!("net{number}"), ..first.clone() };
            net.members.iter_mut().for_each(|member| member.address = None);
            prepared.topology.nets.push(net);
        }
        prepared.network = prepared.topology.clone();
        simulate(&prepared, Detail::Packet).unwrap()
    };
    let (one, two) = (run(1), run(2));
    assert!(one.completed < one.requested, "nothing happened: {one:?}");
    assert_eq!((two.completed, &two.violations[..]), (two.requested, &[][..]));
}

/// Video for everybody, which super nodes reflect.
const REFLECTED: &str = "
topology = { star = { nodes = 9, delay = '10ms', server_delay = '20ms' } }
architecture = 'super-node'
super_nodes = 3
duration = '60s'
stream = '10s'
timeout = '20s'
reflect = true
[classes.star]
mix = { video = 80, idle = 20 }
";

/// The packets of one of its streams: 700 kbit/s in packets of 1128 bytes.
const REFLECTED_PACKETS: std::ops::Range<u64> = 700..800;

#[test]
fn reflected_streams_complete_in_simulation() {
    let asked = records(REFLECTED).requests;
    assert!(asked.len() > 30);
    for request in asked {
        assert_eq!(request.outcome, record::RequestOutcome::Completed, "{request:?}");
        assert!(REFLECTED_PACKETS.contains(&request.packets) && request.lost == 0, "{request:?}");
    }
}

#[test]
fn hubs_carry_reflected_streams() {
    let [reflected, direct] = ["true", "false"].map(|reflect| {
        let shares = simulated(&REFLECTED.replace("reflect = true", &format!("reflect = {reflect}"))).shares;
        assert_eq!(shares.relayed_bytes, 0);
        (shares.hub_bytes, shares.node_bytes)
    });
    assert!(reflected.0 > 20 * direct.0 && direct.1 > 20 * reflected.1, "{reflected:?} {direct:?}");
}

#[test]
fn equal_seeds_repeat_reflection() {
    let of =
        |seed| simulated(&REFLECTED.replace("reflect = true", &format!("reflect = true\nseed = {seed}"))).trace_hash;
    let (first, again, other) = (of(3), of(3), of(4));
    assert_eq!(first, again);
    assert_ne!(first, other);
}

#[test]
fn reflected_streams_outlive_a_hub() {
    let results = records(&format!("{REFLECTED}[[faults]]\nat = '25s'\nkill = 'node1'\nhub = true\n"));
    let under_way = |request: &&record::RequestRecord| (16.0..24.9).contains(&request.t);
    let under_way: Vec<_> = results.requests.iter().filter(under_way).collect();
    assert!(under_way.len() > 5, "{}", under_way.len());
    let mut lost = 0;
    for request in under_way {
        assert_eq!(request.outcome, record::RequestOutcome::Completed, "{request:?}");
        // The hub's death may be noticed after three seconds only.
        assert!(request.packets > REFLECTED_PACKETS.start - 400, "{request:?}");
        lost += request.lost;
    }
    assert!(lost > 0, "nobody has noticed");
}

#[test]
fn lost_reflected_packets_are_repaired() {
    let results = records(&format!("{REFLECTED}[[faults]]\nat = '1s'\nchange = 'net'\nloss = 0.01\n"));
    let (lost, packets) = results
        .requests
        .iter()
        .fold((0, 0), |(lost, packets), request| (lost + request.lost, packets + request.packets));
    // Each crosses six legs.
    assert!(packets > 20_000 && lost * 500 < packets, "{lost} of {packets}");
}
