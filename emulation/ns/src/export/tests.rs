use proptest::prelude::*;
use roost_topology::emulab::EmulabFacts;
use roost_topology::file;
use roost_topology::generate::{Star, Tree, TreeShape};
use roost_topology::model::Notes;
use roost_topology::testing;

use super::*;

/// The topology without remarks on how and where it was written.
fn essence(mut topology: Topology) -> Topology {
    (topology.notes, topology.emulab) = (Notes::default(), EmulabFacts::default());
    topology.events.iter_mut().for_each(|event| event.line = 0);
    topology
}

fn back(ns: &str) -> Topology {
    essence(load_text(Path::new("back.ns"), ns).unwrap_or_else(|error| panic!("{error}\n{ns}")))
}

#[test]
fn radios_and_places_are_lost() {
    let text = "[[host]]\nname = ['a', 'b']\n[[radio]]\nname = 'air'\nmembers = ['a', 'b']\nfrequency = '2.4GHz'\n\
        bandwidth = '20MHz'\npower = '20dBm'\nrate = '10Mbit'\nrange = '1km'\n\
        [[motion.host]]\nname = ['a', 'b']\nposition = [0, 0, 20]\n";
    let topology = file::parse("air", text).unwrap_or_else(|problems| panic!("{problems:?}"));
    assert_eq!(lost(&topology), ["1 radios, which are LANs here", "the places of hosts and their motion"]);
    let ns = write(&topology, "").unwrap();
    assert!(ns.contains("# Not in this file: 1 radios, which are LANs here\n"), "{ns}");
    assert!(lost(&Star::published(11).topology().unwrap()).is_empty());
}

#[test]
fn published_networks_round_trip_through_ns() {
    let star = Star::published(11).topology().unwrap();
    let text = write(&star, "A star").unwrap();
    assert_eq!(back(&text), star);
    assert!(text.starts_with("# A star\nset ns [new Simulator]\n"), "{text}");
    assert!(text.contains("tb-set-node-lan-delay $server $net 125ms\n"), "{text}");
    let tree = Tree::published(TreeShape::inferred(92)).topology().unwrap();
    assert_eq!(back(&write(&tree, "").unwrap()), tree);
}

#[test]
fn oversized_lan_round_trips_through_ns() {
    let star = Star::published(300).topology().unwrap();
    let text = write(&star, "").unwrap();
    assert!(text.contains("tb-set-netmask $net 255.255.254.0\n"), "{text}");
    assert_eq!(back(&text), star);
}

#[test]
fn ns_features_are_written_in_ns() {
    let text = "name = \"export\"\n[[host]]\nname = [\"a\", \"b\", \"c\"]\nos = \"FBSD-STD\"\n\
                [[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nrate = \"2Mbit\"\ndelay = \"30ms\"\nloss = 0.01\n\
                down = { rate = \"500kbit\", queue = { limit = 20 } }\naddresses = [\"10.9.0.1\", \"10.9.0.2\"]\n\
                [[lan]]\nname = \"n\"\nmembers = [\"b\", \"c\"]\nrate = \"10Mbit\"\ndelay = \"4ms\"\ncost = 3.0\n\
                [[program]]\nname = \"p\"\nhost = \"a\"\ncommand = \"ping [b] > $HOME/x\"\ntimeout = \"9s\"\nstart = \"1s\"\n\
                [[event]]\nat = \"2.5s\"\nnet = \"l\"\ndo = \"down\"\n[[event]]\nat = \"4s\"\nnet = \"l\"\nrate = \"1Mbit\"\n\
                [[event]]\nat = \"60s\"\ndo = \"halt\"\n";
    let topology = file::parse("export", text).unwrap();
    let ns = write(&topology, "").unwrap();
    let mut extras = ns.lines().filter(|line| line.starts_with("# roost:"));
    assert!(extras.next().is_none(), "{ns}");
    assert_eq!(back(&ns), Topology { name: "back".to_owned(), ..essence(topology) });
}

#[test]
fn foreign_names_are_kept_in_comments() {
    let text = "[[host]]\nname = [\"set\", \"u.1\", \"u-1\", \"ns\"]\n[[lan]]\nname = \"if_0\"\n\
                members = [\"set\", \"u.1\", \"u-1\", \"ns\"]\nrate = \"1Mbit\"\n\
                [[event]]\nat = \"1s\"\nnet = \"if_0\"\nfrom = \"u.1\"\ndo = \"down\"\n";
    let topology = file::parse("odd", text).unwrap();
    assert_eq!(back(&write(&topology, "").unwrap()), essence(topology));
}

#[test]
fn private_line_error_names_its_line() {
    let ns = write(&Star::published(3).topology().unwrap(), "").unwrap();
    let line = ns.lines().position(|line| line.contains("class = \"star\"")).unwrap() + 1;
    let error = load_text(Path::new("x.ns"), &ns.replace("class = \"star\"", "clas = \"star\"")).unwrap_err();
    assert_eq!(error.to_string(), format!("x.ns:{line}: `clas` is no key of a host; did you mean `class`?"));
}

#[test]
fn private_removals_leave_no_references() {
    let text = "set ns [new Simulator]\nset a [$ns node]\nset b [$ns node]\nset p [$a program-agent -command ls]\n\
                $ns at 1 \"$p start\"\n$ns run\n# roost: replace = [\"program\"]\n";
    let topology = back(text);
    assert!(topology.programs.is_empty() && topology.events.is_empty());
    let twice =
        "set ns [new Simulator]\nset a [$ns node]\nset b [$ns node]\n$ns run\n# roost: names = [[\"a\", \"b\"]]\n";
    let error = load_text(Path::new("x.ns"), twice).unwrap_err();
    assert_eq!(error.to_string(), "x.ns: `b` is already the name of a host");
}

proptest! {
    #[test]
    fn any_topology_round_trips_through_ns(topology in testing::any_topology()) {
        let ns = write(&topology, "").map_err(|error| TestCaseError::fail(error.to_string()))?;
        let read = load_text(Path::new("back.ns"), &ns).map_err(|error| TestCaseError::fail(format!("{error}\n{ns}")))?;
        prop_assert_eq!(essence(read), topology, "{}", ns);
    }
}
