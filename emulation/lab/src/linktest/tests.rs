//! Link tests of the model itself, in virtual time: they measure the right properties, and find deviations from
//! the description.

use std::convert::Infallible;

use roost_netcore::wiring::{self, Wiring};
use roost_netcore::{Destination, Network};
use roost_topology::model::{Burst, Leg, NetKind, Routing};
use roost_topology::units::Rate;
use roost_topology::{addresses, testing};
use roost_wire::Time;

use super::flow::LinktestArrival;
use super::*;

/// The model of a topology as a carrier of probes. Its receivers are 50 µs late, like those of a real machine.
struct Model {
    network: Network<(usize, u64)>,
    wiring: Wiring,
    now: Time,
    flows_carried: usize,
}

const LATE: u64 = 50_000;

impl Model {
    fn from_topology(topology: &Topology) -> Self {
        let (network, wiring) = wiring::build(topology, 5);
        Self { network, wiring, now: Time::ZERO, flows_carried: 0 }
    }
}

impl ProbeCarrier for Model {
    type Error = Infallible;

    fn send_flows(&mut self, flows: &[LinktestFlow]) -> Result<Vec<LinktestTrace>, Infallible> {
        let begin = self.now;
        let mut traces = vec![LinktestTrace::default(); flows.len()];
        let mut sends: Vec<(Time, usize)> = Vec::new();
        for (index, flow) in flows.iter().enumerate() {
            sends.extend((0..flow.count).map(|place| (begin + flow.start + flow.interval * place, index)));
        }
        sends.sort();
        for (at, index) in sends {
            traces[index].sent += 1;
            let Some((net, from, to)) = flows[index].way else {
                // The model has no routes: the probe counts as arrived.
                traces[index].arrivals.push(LinktestArrival { sent: 0, received: 0 });
                continue;
            };
            let [from, to] = [from, to].map(|place| self.wiring.port(net, place).unwrap());
            self.network.send(at, from, Destination::Port(to), flows[index].frame, (index, at.as_nanos()));
        }
        while let Some(due) = self.network.poll_deadline() {
            while let Some(delivery) = self.network.poll_delivery(due) {
                let (index, sent) = delivery.packet;
                traces[index].arrivals.push(LinktestArrival { sent, received: delivery.due.as_nanos() + LATE });
            }
            self.now = due;
        }
        self.flows_carried += flows.len();
        Ok(traces)
    }

    fn stopped(&self) -> bool {
        false
    }
}

fn test(described: &Topology, actual: &Topology, options: &LinktestOptions) -> LinktestReport {
    let Ok(report) = measure(described, options, &mut Model::from_topology(actual), &mut |_| {});
    report
}

fn leg(mbit: u64, ms: u64, loss: f64) -> Leg {
    Leg { rate: Rate::from_bps(mbit * 1_000_000), delay: Duration::from_millis(ms), loss, ..Leg::default() }
}

/// A LAN of `members`, the first with legs of its own.
fn star(members: usize, first: Leg, others: Leg) -> Topology {
    let all: Vec<usize> = (0..members).collect();
    let mut topology = addresses::assign(&testing::nets(members, &[&all])).unwrap();
    topology.nets[0].kind = NetKind::Lan;
    for (place, member) in topology.nets[0].members.iter_mut().enumerate() {
        let leg = if place == 0 { first.clone() } else { others.clone() };
        (member.to_net, member.from_net) = (leg.clone(), leg);
    }
    topology
}

fn link(there: Leg, back: Leg) -> Topology {
    let mut topology = addresses::assign(&testing::nets(2, &[&[0, 1]])).unwrap();
    let unchanged = Leg::default();
    let [a, b] = topology.nets[0].members.as_mut_slice() else { panic!("two members") };
    (a.to_net, a.from_net, b.to_net, b.from_net) = (there, unchanged.clone(), back, unchanged);
    topology
}

#[track_caller]
fn assert_passes(topology: &Topology, options: &LinktestOptions) -> LinktestReport {
    let report = test(topology, topology, options);
    assert!(report.passed(), "{:#?}", report.failures().collect::<Vec<_>>());
    report
}

/// The tests that fail if `actual` is described as `described`, without repeats.
fn failing(described: &Topology, actual: &Topology) -> Vec<(LinktestKind, String)> {
    let report = test(described, actual, &LinktestOptions::default());
    let mut failing: Vec<_> = report.failures().map(|one| (one.test, format!("{}-{}", one.from, one.to))).collect();
    assert!(report.failures().all(|one| one.attempts == ATTEMPTS.unsigned_abs()));
    failing.sort();
    failing.dedup();
    failing
}

#[test]
fn what_is_as_described_passes() {
    let star = star(11, leg(100, 125, 0.0), leg(10, 50, 0.01));
    let report = assert_passes(&star, &LinktestOptions::default());
    let count = |test| report.measurements.iter().filter(|one| one.test == test).count();
    assert_eq!((count(LinktestKind::Delay), count(LinktestKind::Loss)), (110, 11));
    let delay = report.measurements.iter().find(|one| one.test == LinktestKind::Delay).unwrap();
    assert!((delay.error.unwrap() - 0.05).abs() < 1e-6, "the probe's own time is expected: {delay:?}");
    assert_passes(&star, &LinktestOptions { quick: true, ..LinktestOptions::default() });
    assert_passes(&link(leg(10, 5, 0.0), leg(1, 600, 0.1)), &LinktestOptions::default());
}

#[test]
fn bursts_jitter_and_slow_links_pass() {
    let burst = Leg { burst: Some(Burst { enter: 0.02, leave: 0.25, loss: 0.8 }), ..leg(10, 10, 0.02) };
    let jitter = Leg { jitter: Duration::from_millis(8), ..leg(10, 20, 0.0) };
    assert_passes(&link(burst, jitter), &LinktestOptions::default());
    let slow = |bps| Leg { rate: Rate::from_bps(bps), ..leg(1, 10, 0.0) };
    assert_passes(&link(slow(9_600), slow(56_000)), &LinktestOptions::default());
    assert_passes(&link(slow(9_600), slow(56_000)), &LinktestOptions { quick: true, ..LinktestOptions::default() });
}

#[test]
fn loss_after_bottleneck_keeps_rate() {
    let topology = star(3, leg(10, 5, 0.15), leg(10, 5, 0.0));
    assert_passes(&topology, &LinktestOptions::default());
}

#[test]
fn early_drop_keeps_measured_rate() {
    use roost_topology::model::{Discipline, Queue, Red};
    let red = Queue { discipline: Discipline::Red(Red::DEFAULT), ..Queue::DEFAULT };
    let red = Leg { queue: red, ..leg(2, 10, 0.0) };
    assert_passes(&link(red.clone(), red), &LinktestOptions::default());
}

#[test]
fn wrong_delay_names_its_direction() {
    let (described, actual) = (link(leg(10, 50, 0.0), leg(10, 50, 0.0)), link(leg(10, 50, 0.0), leg(10, 53, 0.0)));
    assert_eq!(failing(&described, &actual), [(LinktestKind::Delay, "h1-h0".to_owned())]);
    // A round trip would not tell these apart.
    let swapped = link(leg(10, 47, 0.0), leg(10, 53, 0.0));
    assert_eq!(failing(&described, &swapped).len(), 2);
}

#[test]
fn a_wrong_rate_is_found() {
    let actual = link(leg(10, 5, 0.0), Leg { rate: Rate::from_bps(9_600_000), ..leg(10, 5, 0.0) });
    let described = link(leg(10, 5, 0.0), leg(10, 5, 0.0));
    assert_eq!(failing(&described, &actual), [(LinktestKind::Rate, "h1-h0".to_owned())]);
    assert_eq!(failing(&actual, &described), [(LinktestKind::Rate, "h1-h0".to_owned())]);
}

#[test]
fn wrong_leg_rate_is_found() {
    let described = star(5, leg(10, 5, 0.0), leg(10, 5, 0.0));
    let mut actual = described.clone();
    actual.nets[0].members[3].from_net.rate = Rate::from_bps(8_000_000);
    assert_eq!(failing(&described, &actual).len(), 1);
}

#[test]
fn a_wrong_loss_is_found() {
    let described = link(leg(10, 5, 0.05), leg(10, 5, 0.0));
    let lossier = link(leg(10, 5, 0.12), leg(10, 5, 0.0));
    assert_eq!(failing(&described, &lossier), [(LinktestKind::Loss, "h0-h1".to_owned())]);
    assert_eq!(failing(&lossier, &described), [(LinktestKind::Loss, "h0-h1".to_owned())]);
    let lossy = link(leg(10, 5, 0.05), leg(10, 5, 0.01));
    assert_eq!(failing(&described, &lossy), [(LinktestKind::Loss, "h1-h0".to_owned())]);
}

#[test]
fn cut_link_fails_every_test() {
    let described = link(leg(10, 5, 0.0), leg(10, 5, 0.0));
    let cut = link(leg(10, 5, 1.0), leg(10, 5, 0.0));
    let failed = failing(&described, &cut);
    assert_eq!(
        failed.iter().map(|(test, _)| *test).collect::<Vec<_>>(),
        [LinktestKind::Delay, LinktestKind::Rate, LinktestKind::Loss]
    );
    assert!(failed.iter().all(|(_, path)| path == "h0-h1"));
    let report = test(&described, &cut, &LinktestOptions::default());
    assert!(report.lines()[0].contains("nothing arrived from h0 at h1"), "{:?}", report.lines());
}

#[test]
fn only_chosen_tests_are_measured() {
    let mut topology = addresses::assign(&testing::nets(4, &[&[0, 1], &[2, 3]])).unwrap();
    topology.routing = Routing::Static;
    let options =
        LinktestOptions { tests: vec![LinktestKind::Loss], nets: vec![1], reach: false, ..LinktestOptions::default() };
    let report = assert_passes(&topology, &options);
    assert!(report.reach.is_none());
    assert!(report.measurements.iter().all(|one| one.test == LinktestKind::Loss && one.net == "net1"));
    let report =
        assert_passes(&topology, &LinktestOptions { tests: vec![LinktestKind::Delay], ..LinktestOptions::default() });
    assert_eq!(report.reach.as_ref().map(|reach| (reach.pairs, reach.tried, reach.failed)), Some((4, 4, 0)));
}

#[test]
fn mass_failure_limits_attempts() {
    let attempts = |members: usize| {
        let (described, actual) =
            (star(members, leg(100, 50, 0.0), leg(100, 50, 0.0)), star(members, leg(100, 60, 0.0), leg(100, 60, 0.0)));
        let report = test(
            &described,
            &actual,
            &LinktestOptions { tests: vec![LinktestKind::Delay], ..LinktestOptions::default() },
        );
        assert_eq!(report.failures().count(), members * (members - 1));
        let attempts: Vec<u32> = report.failures().map(|one| one.attempts).collect();
        assert!(attempts.iter().all(|count| *count == attempts[0]), "{attempts:?}");
        attempts[0]
    };
    // 10 probes for each pair, 5000 per second, and 15 s for all attempts.
    assert_eq!(attempts(40), 3, "3.1 s each");
    assert_eq!(attempts(54), 2, "5.7 s each");
}

#[test]
fn what_passed_is_not_measured_again() {
    let (described, actual) = (link(leg(10, 50, 0.0), leg(10, 50, 0.0)), link(leg(10, 50, 0.0), leg(10, 53, 0.0)));
    let mut model = Model::from_topology(&actual);
    let options = LinktestOptions { tests: vec![LinktestKind::Delay], ..LinktestOptions::default() };
    let Ok(_) = measure(&described, &options, &mut model, &mut |_| {});
    assert_eq!(model.flows_carried, 4, "two, and one of them twice more");
}

#[test]
fn radio_is_skipped_with_a_reason() {
    let text = "lenient = true\n[[host]]\nname = ['a', 'b']\n[[motion.host]]\nname = 'a'\nposition = [0, 0]\n\
        [[motion.host]]\nname = 'b'\nposition = [9, 0]\n[[radio]]\nname = 'r'\nmembers = ['a', 'b']\n\
        frequency = '2.4GHz'\npower = '20dBm'\nbandwidth = '20MHz'\nrate = '8Mbit'\nrange = '1km'\n";
    let topology = addresses::assign(&roost_topology::file::parse("radio", text).unwrap()).unwrap();
    let options = LinktestOptions { reach: false, ..LinktestOptions::default() };
    let Ok(report) = measure(&topology, &options, &mut Model::from_topology(&topology), &mut |_| {});
    let skipped = report.not_measured();
    assert!(
        matches!(&skipped[..], [one] if one.starts_with("whether the delay, rate and loss of r are")),
        "{skipped:?}"
    );
    assert!(report.measurements.iter().all(|one| one.outcome == LinktestOutcome::Skipped));
}
