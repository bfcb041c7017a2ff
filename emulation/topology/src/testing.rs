//! Topologies for tests: small ones by hand, and random ones with every feature.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop where it stands")]

use std::net::Ipv4Addr;
use std::time::Duration;

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;

use super::model::*;
use crate::units::Rate;

pub fn address(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

/// Makes `hosts` hosts `h0`, `h1`…, and nets `net0`… of the listed members: two make a link.
pub fn nets(hosts: usize, members: &[&[usize]]) -> Topology {
    let host = |index: usize| Host { name: format!("h{index}"), ..Host::default() };
    let net = |(index, members): (usize, &&[usize])| Net {
        name: format!("net{index}"),
        kind: if members.len() == 2 { NetKind::Link } else { NetKind::Lan },
        members: members.iter().map(|host| plain_member(*host)).collect(),
        cost: 1.0,
    };
    Topology {
        name: "fixture".to_owned(),
        hosts: (0..hosts).map(host).collect(),
        nets: members.iter().enumerate().map(net).collect(),
        ..Topology::default()
    }
}

fn plain_member(host: usize) -> NetMember {
    let whole = Leg { rate: Rate::from_bps(100_000_000), delay: Duration::from_millis(10), ..Leg::default() };
    let (to_net, from_net) = whole.halves();
    NetMember { host, address: None, prefix: 24, to_net, from_net }
}

/// Any topology that the readers accept, with everything but notes. Routing is static, so that no host is out
/// of reach by mistake.
pub fn any_topology() -> impl Strategy<Value = Topology> {
    hosts().prop_flat_map(|hosts| {
        let count = hosts.len();
        let nets = vec(any_net(count), 0..6);
        (Just(hosts), nets).prop_flat_map(|(hosts, nets)| {
            let nets = finish_nets(nets);
            let (programs, traffic) = (vec(any_program(hosts.len()), 0..3), vec(any_agent(hosts.len()), 0..3));
            (Just(hosts), Just(nets), programs, traffic).prop_flat_map(with_events)
        })
    })
}

type TopologyParts = (Vec<Host>, Vec<Net>, Vec<HostProgram>, Vec<TrafficAgent>);

fn with_events((hosts, nets, programs, traffic): TopologyParts) -> impl Strategy<Value = Topology> {
    let topology = Topology {
        name: "random".to_owned(),
        hosts,
        nets,
        routing: Routing::Static,
        programs: programs
            .into_iter()
            .enumerate()
            .map(|(i, it)| HostProgram { name: format!("prog{i}"), ..it })
            .collect(),
        traffic: traffic
            .into_iter()
            .enumerate()
            .map(|(i, it)| TrafficAgent { name: format!("cbr{i}"), ..it })
            .collect(),
        ..Topology::default()
    };
    let hosts = topology.hosts.len();
    let routes = vec((0..hosts, 0..hosts, 0..hosts), 0..3);
    (vec(any_event(&topology), 0..6), of(0..hosts), routes).prop_map(move |(mut events, sync_server, routes)| {
        events.sort_by_key(|event| event.at);
        wait(&mut events);
        let route = |(host, to, via)| ManualRoute { host, to: RouteTarget::Host(to), via };
        let manual_routes = routes.into_iter().map(route).collect();
        Topology { events, sync_server, manual_routes, ..topology.clone() }
    })
}

/// Makes the event after each run of a program wait for it.
fn wait(events: &mut [Event]) {
    for index in 1..events.len() {
        let runs = matches!(&events[index - 1].action, Action::Program { what: ProgramAction::Run(_), .. });
        events[index].after = runs.then_some(index - 1);
    }
}

fn hosts() -> impl Strategy<Value = Vec<Host>> {
    let prefix = prop::sample::select(vec!["n", "low", "uav-", "x_", "h.", "node0"]);
    let class = of(prop::sample::select(vec!["low", "server", "a class \"so\""]));
    let os = of(prop::sample::select(vec!["UBUNTU22-64-STD", "FBSD"]));
    let cell = of((-5..5_i32, 0..3_i32));
    let host = (prefix, class, cell, os.clone(), os).prop_map(|(prefix, class, cell, os, hardware)| Host {
        name: prefix.to_owned(),
        class: class.map(str::to_owned),
        cell,
        os: os.map(str::to_owned),
        hardware: hardware.map(str::to_owned),
    });
    vec(host, 1..9).prop_map(|mut hosts| {
        hosts.iter_mut().enumerate().for_each(|(index, host)| host.name.push_str(&index.to_string()));
        hosts
    })
}

/// A net, a flag for each member that has an explicit address, and the prefix.
fn any_net(hosts: usize) -> impl Strategy<Value = (Net, Vec<bool>, u8)> {
    let all: Vec<usize> = (0..hosts).collect();
    let subset = prop::sample::subsequence(all, 1..=hosts).prop_shuffle();
    let cost = prop::sample::select(vec![1.0, 1.0, 2.0, 0.5, 3.25]);
    let prefix = prop::sample::select(vec![24_u8, 24, 16, 28]);
    let shape = prop_oneof![any_uniform(hosts), any_uniform(hosts), any_legs(hosts)];
    (subset, any::<bool>(), cost, shape, vec(any::<bool>(), hosts), any::<bool>(), prefix).prop_map(
        |(mut hosts, lan, cost, legs, addressed, explicit, prefix)| {
            let kind = if lan || hosts.len() < 2 { NetKind::Lan } else { NetKind::Link };
            if kind == NetKind::Link {
                hosts.truncate(2);
            }
            let member = |(host, (to_net, from_net)): (usize, (Leg, Leg))| NetMember {
                host,
                address: None,
                prefix,
                to_net,
                from_net,
            };
            let members = hosts.into_iter().zip(legs).map(member).collect();
            let addressed = addressed.into_iter().map(|it| it && explicit).collect();
            (Net { name: String::new(), kind, members, cost }, addressed, prefix)
        },
    )
}

/// Names the nets and sets the explicit addresses.
fn finish_nets(nets: Vec<(Net, Vec<bool>, u8)>) -> Vec<Net> {
    let settle = |(index, (mut net, addressed, prefix)): (usize, (Net, Vec<bool>, u8))| {
        net.name = format!("net{index}");
        // Links named after their ends have a shorter form.
        for (place, (member, addressed)) in net.members.iter_mut().zip(addressed).enumerate() {
            member.prefix = prefix;
            let own = Ipv4Addr::new(172, 16 + index as u8, 0, 3 + place as u8);
            member.address = addressed.then_some(own);
        }
        net
    };
    nets.into_iter().enumerate().map(settle).collect()
}

/// The legs of a link or LAN without exceptions.
fn any_uniform(members: usize) -> BoxedStrategy<Vec<(Leg, Leg)>> {
    any_leg().prop_map(move |leg| vec![leg.halves(); members]).boxed()
}

fn any_legs(members: usize) -> BoxedStrategy<Vec<(Leg, Leg)>> {
    vec((any_leg(), any_leg()), members).boxed()
}

fn any_leg() -> impl Strategy<Value = Leg> {
    let loss = prop_oneof![3 => Just(0.0), 1 => 0.0..1.0, 1 => prop::sample::select(vec![0.01, 0.05, 1.0])];
    let jitter = prop_oneof![3 => Just(Duration::ZERO), 1 => any_duration()];
    let leg = |(rate, delay, loss, burst, (jitter, order), queue)| Leg {
        rate,
        delay,
        loss,
        burst,
        jitter,
        order,
        queue,
        trace: None,
    };
    (any_rate(), any_duration(), loss, of(any_burst()), (jitter, any_order()), any_queue()).prop_map(leg)
}

fn any_rate() -> impl Strategy<Value = Rate> {
    let round = prop::sample::select(vec![0, 1_000_000, 10_000_000, 100_000_000, 56_000]);
    prop_oneof![3 => round, 1 => 1..10_000_000_000_u64].prop_map(Rate::from_bps)
}

fn any_duration() -> impl Strategy<Value = Duration> {
    let round = (0..200_u64).prop_map(Duration::from_millis);
    prop_oneof![3 => round, 1 => (0..3_600_000_000_000_u64).prop_map(Duration::from_nanos)]
}

fn any_burst() -> impl Strategy<Value = Burst> {
    (0.0..1.0, 0.001..1.0, 0.0..=1.0).prop_map(|(enter, leave, loss)| Burst { enter, leave, loss })
}

fn any_order() -> impl Strategy<Value = PacketOrder> {
    prop_oneof![3 => Just(PacketOrder::Kept), 1 => Just(PacketOrder::Free)]
}

fn any_queue() -> impl Strategy<Value = Queue> {
    let red = (1..20_u32, 1..20_u32, 1..50_u32, 0.0001..1.0, any::<bool>()).prop_map(
        |(min, more, linterm, weight, gentle)| {
            Discipline::Red(Red { min_threshold: min, max_threshold: min + more, linterm, weight, gentle })
        },
    );
    let discipline = prop_oneof![2 => Just(Discipline::DropTail), 1 => red, 1 => Just(Discipline::Red(Red::DEFAULT))];
    let drawn = (1..200_u32, any::<bool>(), discipline);
    let drawn = drawn.prop_map(|(limit, in_bytes, discipline)| Queue { limit, in_bytes, discipline });
    prop_oneof![3 => Just(Queue::DEFAULT), 1 => drawn]
}

fn any_program(hosts: usize) -> impl Strategy<Value = HostProgram> {
    let command = prop::sample::select(vec!["", "ping -c 3 h1", "echo \"a b\" > 'f' # no", "a\\b\t{c} [d] $e"]);
    let folder = of(Just("/tmp/in here".to_owned()));
    (0..hosts, command, folder, of(any_duration()), of(-1..256_i32), any::<bool>()).prop_map(
        |(host, command, folder, timeout, expected_exit, start_command)| HostProgram {
            name: String::new(),
            host,
            command: command.to_owned(),
            folder,
            timeout,
            expected_exit,
            start_command,
        },
    )
}

fn any_agent(hosts: usize) -> impl Strategy<Value = TrafficAgent> {
    let numbers = (1..9000_u16, 1..1500_u32, any_rate(), of(0.001..10.0));
    (0..hosts, any::<bool>(), any::<bool>(), of(0..hosts), numbers).prop_map(
        |(host, is_source, tcp, target, (port, packet_bytes, rate, interval))| TrafficAgent {
            name: String::new(),
            host,
            is_source,
            tcp,
            port,
            target,
            packet_bytes,
            rate,
            interval,
        },
    )
}

fn any_event(topology: &Topology) -> BoxedStrategy<Event> {
    let at = any_duration();
    let halt = Just(("ns".to_owned(), Action::Halt)).boxed();
    let other = Just((
        "h1".to_owned(),
        Action::Other { kind: "NODE".to_owned(), event: "REBOOT".to_owned(), args: "A=\"1\" B".to_owned() },
    ));
    let mut choices = vec![halt, other.boxed()];
    choices.extend((0..topology.nets.len()).map(|net| net_event(topology, net)));
    choices.extend((0..topology.programs.len()).map(|program| program_event(topology, program)));
    choices.extend((0..topology.traffic.len()).map(|agent| traffic_event(topology, agent)));
    (at, prop::strategy::Union::new(choices))
        .prop_map(|(at, (object, action))| Event { at, after: None, object, line: 0, action })
        .boxed()
}

fn net_event(topology: &Topology, net: usize) -> BoxedStrategy<(String, Action)> {
    let members: Vec<usize> = topology.nets[net].members.iter().map(|member| member.host).collect();
    let (name, hosts) = (topology.nets[net].name.clone(), topology.hosts.clone());
    (of(prop::sample::select(members)), any_change())
        .prop_map(move |(from, change)| {
            let object = from.map_or(name.clone(), |host| format!("{name}-{}", hosts[host].name));
            (object, Action::Net { net, from, change })
        })
        .boxed()
}

fn any_change() -> impl Strategy<Value = TopologyChange> {
    prop_oneof![
        Just(TopologyChange::Up),
        Just(TopologyChange::Down),
        any_rate().prop_map(TopologyChange::Rate),
        any_duration().prop_map(TopologyChange::Delay),
        (0.0..=1.0).prop_map(TopologyChange::Loss),
        of(any_burst()).prop_map(TopologyChange::Burst),
        any_duration().prop_map(TopologyChange::Jitter),
        any_order().prop_map(TopologyChange::Order),
        any_queue().prop_map(TopologyChange::Queue),
    ]
}

fn program_event(topology: &Topology, program: usize) -> BoxedStrategy<(String, Action)> {
    let name = topology.programs[program].name.clone();
    let command = of(prop::sample::select(vec!["true".to_owned(), "sleep 3; echo {".to_owned()]));
    let what = prop_oneof![
        command.clone().prop_map(ProgramAction::Start),
        command.prop_map(ProgramAction::Run),
        Just(ProgramAction::Stop),
        Just(ProgramAction::Kill("HUP".to_owned())),
        Just(ProgramAction::Set("ls -l".to_owned())),
    ];
    what.prop_map(move |what| (name.clone(), Action::Program { program, what })).boxed()
}

fn traffic_event(topology: &Topology, agent: usize) -> BoxedStrategy<(String, Action)> {
    let name = topology.traffic[agent].name.clone();
    let what = prop_oneof![
        Just(TrafficAction::Start),
        Just(TrafficAction::Stop),
        (1..1500_u32).prop_map(TrafficAction::PacketBytes),
        any_rate().prop_map(TrafficAction::Rate),
        (0.001..10.0).prop_map(TrafficAction::Interval),
    ];
    what.prop_map(move |what| (name.clone(), Action::Traffic { agent, what })).boxed()
}
