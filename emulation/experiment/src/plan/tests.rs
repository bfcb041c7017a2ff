use std::path::PathBuf;

use roost_topology::model::TopologyChange;
use roost_topology::units::Rate;

use super::*;

const LEAST: &str = "topology = 'star.toml'\narchitecture = 'super-node'\nduration = '60s'\n";

fn parse(text: &str) -> Result<Plan, PlanError> {
    Plan::parse(text, Path::new("plans/trial.toml"))
}

/// The line and message of the mistake in the least plan followed by `more`; lines count from the first one of
/// `more`.
fn wrong(more: &str) -> (usize, String) {
    let error = parse(&format!("{LEAST}{more}")).unwrap_err();
    assert!(error.line == 0 || error.line > 3, "{error}");
    (error.line.saturating_sub(3), error.message)
}

#[test]
fn defaults_are_as_published() {
    let plan = parse(LEAST).unwrap();
    assert_eq!((plan.name.as_str(), plan.seed, plan.linktest), ("trial", 1, true));
    assert_eq!((plan.stream, plan.idle), (Duration::from_secs(10), Duration::from_secs(1)));
    assert_eq!((plan.transport, plan.super_nodes), (TransportChoice::Paper, SuperNodes::Flat(HubSelection::Count(1))));
    assert_eq!(plan.topology, TopologySource::File(PathBuf::from("star.toml")));
}

#[test]
fn only_super_nodes_reflect() {
    assert!(!parse(LEAST).unwrap().reflect);
    assert!(parse(&format!("{LEAST}reflect = true\n")).unwrap().reflect);
    for architecture in ["client-server", "multicast"] {
        let plan = format!("{}reflect = true\n", LEAST.replace("super-node", architecture));
        let error = parse(&plan).unwrap_err();
        assert!(error.line == 4 && error.message.contains("leave out `reflect`"), "{error}");
    }
}

#[test]
fn a_whole_plan_is_read() {
    let plan = parse(
        r#"
        name = "all"
        architecture = "client-server"
        super_nodes = ["a", "b"]
        server = "far"
        transport = "quic"
        duration = "15m"
        seed = 7
        linktest = false
        [topology.star]
        nodes = 11
        delay = "50ms"
        server_delay = "125ms"
        rate = "100Mbit"
        [classes.low]
        mix = "x45"
        locality = "anywhere"
        [classes.relay]
        mix = "none"
        [[faults]]
        at = "30s"
        change = "lan"
        from = "a"
        delay = "1s"
        rate = "1Mbit"
        [[faults]]
        at = "20s"
        kill = "a"
        hub = true
        [lab]
        backend = "veth"
        realtime = false
        tcp = "reno"
        "#,
    )
    .unwrap();
    assert_eq!((plan.architecture, plan.duration), (Architecture::ClientServer, Duration::from_secs(900)));
    assert!(
        matches!(&plan.topology, TopologySource::Star(star) if star.nodes == 11 && star.server.delay.as_millis() == 125)
    );
    assert_eq!(
        plan.classes["low"],
        Class { line: 15, part: Some(Participation::Active(Mix::X45)), locality: Some(Locality::Anywhere) }
    );
    assert_eq!(plan.classes["relay"].part, Some(Participation::None));
    assert_eq!(
        plan.lab,
        LabSettings { backend: BackendChoice::Veth, realtime: false, tcp: TcpCongestion::Named("reno".to_owned()) }
    );
    let [kill, change] = plan.faults.as_slice() else { panic!("{:?}", plan.faults) };
    assert!(
        matches!(&kill.kind, FaultKind::Daemon(daemon, DaemonAction::Kill) if daemon.hub && daemon.host.name == "a")
    );
    let changes = vec![TopologyChange::Rate(Rate::from_bps(1_000_000)), TopologyChange::Delay(Duration::from_secs(1))];
    assert!(
        matches!(&change.kind, FaultKind::Net { changes: c, from: Some(from), .. } if *c == changes && from.line == 23)
    );
}

#[test]
fn unknown_key_suggests_nearest() {
    assert_eq!(wrong("tiemout = '5s'\n"), (1, "`tiemout` is no key of a plan; did you mean `timeout`?".to_owned()));
    assert_eq!(
        wrong("\n[lab]\nrealtme = true\n"),
        (3, "`realtme` is no key of lab; did you mean `realtime`?".to_owned())
    );
    for (more, near) in [
        ("transport = 'quik'\n", "`quic`"),
        ("[lab]\nbackend = 'vet'\n", "`veth`"),
        ("[classes.low]\nlocality = 'anywere'\n", "`anywhere`"),
        ("[classes.low]\nmix = 'tactcal'\n", "`tactical`"),
    ] {
        let (_, message) = wrong(more);
        assert!(message.ends_with(&format!("did you mean {near}?")), "{message}");
    }
    let error = parse(&LEAST.replace("super-node", "supernode")).unwrap_err();
    assert!(error.message.ends_with("did you mean `super-node`?"), "{error}");
    let (line, message) = wrong("zzz = 1\n");
    assert!(line == 1 && message.starts_with("`zzz` is no key of a plan: choose name, topology"), "{message}");
}

#[test]
fn invalid_value_names_its_line() {
    for (more, line, part) in [
        ("seed = -1\n", 1, "a seed is a whole number from 0 to 9223372036854775807"),
        ("idle = 60\n", 1, "write \"60s\""),
        ("[[faults]]\nat = 5\nkill = 'a'\n", 2, "write \"5s\""),
        ("[links.a]\nrate = 5\n", 2, "write \"5Mbit\""),
        ("idle = '1'\n", 1, "is no duration"),
        ("drain = '0s'\n", 1, "longer than nothing"),
        ("stream = '200h'\n", 1, "longer than a week"),
        ("super_nodes = 0\n", 1, "at least one super node"),
        ("super_nodes = []\n", 1, "at least one super node"),
        ("caches = 0\n", 1, "at least one cache"),
        ("name = 'a/b'\n", 1, "a name is"),
        ("transport = 'sctp'\n", 1, "there is no transport `sctp`"),
        ("[classes.low]\nmix = { video = 10 }\n", 2, "add up to 10 %"),
        ("[classes.low]\nlocality = 'near'\n", 2, "link"),
        ("[[faults]]\nat = '1s'\n", 2, "a fault does one thing"),
        ("[[faults]]\nat = '1s'\nkill = 'a'\ndown = 'b'\n", 2, "a fault does one thing"),
        ("[[faults]]\nat = '1s'\nchange = 'b'\n", 2, "a change says to what"),
        ("[[faults]]\nat = '1s'\nup = 'b'\nloss = 0.1\n", 2, "belong to `change`"),
        ("[[faults]]\nat = '1s'\nchange = 'b'\nloss = 2.0\n", 4, "from 0 to 1"),
        ("[[faults]]\nat = '1s'\nkill = 'b'\nfrom = 'c'\n", 2, "`from` belongs"),
        ("[[faults]]\nat = '1s'\nup = 'b'\nhub = true\n", 2, "`hub` belongs"),
        ("[lab]\nbackend = 'tun'\n", 2, "auto"),
        ("name = \n", 1, ""),
    ] {
        let (found, message) = wrong(more);
        assert!(found == line && message.contains(part), "{more:?}: line {found}: {message}");
    }
}

#[test]
fn network_description_is_no_plan() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("convoy.ns");
    std::fs::write(&file, "set ns [new Simulator]\n").unwrap();
    let error = Plan::text(&file).unwrap_err();
    assert!(error.message.contains("an NS file") && error.message.contains("`emulate run`"), "{error}");
}

#[test]
fn only_known_architectures_are_accepted() {
    let overlay = ["super-node", "multicast", "super-node-multicast", "super-node-auto"];
    for name in ["client-server", "client-server-caching"].into_iter().chain(overlay) {
        assert_eq!(parse(&LEAST.replace("super-node", name)).unwrap().architecture.name(), name);
    }
    let error = parse(&LEAST.replace("super-node", "mesh")).unwrap_err();
    assert!(
        error.to_string().starts_with("plans/trial.toml:2: `architecture` of a plan: there is no architecture `mesh`"),
        "{error}"
    );
}

#[test]
fn what_is_needed_must_be_there() {
    assert!(parse("").unwrap_err().message.contains("missing field"));
    let with = |topology: &str| parse(&LEAST.replace("'star.toml'", topology));
    assert!(with("{ ring = { nodes = 3 } }").unwrap_err().message.contains("ring"));
    let error = with("{ tree = { nodes = 31, x45 = 2, tactical = 6, low = 3 } }").unwrap_err();
    assert!(error.line == 1 && error.message.contains("31 nodes are not 2 X-45s"), "{error}");
}

#[test]
fn fault_repeats_as_planned() {
    let of = |more: &str| parse(&format!("{LEAST}[[faults]]\nat = '10s'\nfreeze = 'a'\n{more}"));
    let times = |more: &str| of(more).unwrap().faults.iter().map(|fault| fault.at.as_secs()).collect::<Vec<_>>();
    assert_eq!(times("every = '5s'\ntimes = 3\n"), [10, 15, 20]);
    assert_eq!(times("every = '20s'\n"), [10, 30, 50]);
    assert_eq!(times(""), [10]);
    let (refused, why) = (|more: &str| of(more).unwrap_err().message, "nodes ask no more");
    assert!(refused("every = '25s'\ntimes = 3\n").contains(why));
    assert!(refused("times = 3\n").contains("`times` needs `every`"));
    assert!(refused("every = '0s'\n").contains("longer than nothing"));
    assert!(
        refused("every = '1ns'\n").contains("possible") && refused("every = '1s'\ntimes = 0\n").contains("possible")
    );
    assert!(refused("thaw = 'a'\n").contains("one thing: say one of kill, stop, start, freeze, thaw"));
}

#[test]
fn movement_speed_is_limited() {
    assert_eq!(parse(LEAST).unwrap().movement, None);
    let moving = parse(&format!("{LEAST}[movement]\nspeed = 2.5\n")).unwrap();
    assert_eq!(moving.movement.map(Movement::pause), Some(Duration::from_secs(24)));
    for speed in ["0.0", "-1.0", "601.0", "nan"] {
        let (line, message) = wrong(&format!("[movement]\nspeed = {speed}\n"));
        assert!(line == 2 && message.contains("cells a minute"), "{line} {message}");
    }
}

#[test]
fn movement_excludes_restart_and_freeze() {
    for word in ["start", "freeze"] {
        let fault = format!("[[faults]]\nat = '2s'\n{word} = 'node1'\n");
        let (line, message) = wrong(&format!("{fault}[movement]\nspeed = 1.0\n"));
        assert!(line == 3 && message.contains(&format!("leave `{word}` out")), "{line} {message}");
        parse(&format!("{LEAST}{fault}hub = true\n[movement]\nspeed = 1.0\n")).unwrap();
    }
}
