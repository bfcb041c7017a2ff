use super::*;
use crate::testing::{self, address};

fn errors(topology: &Topology) -> Vec<String> {
    check(topology, &TopologyLines::default(), ValidationPolicy::Strict)
        .errors
        .into_iter()
        .map(|note| note.text)
        .collect()
}

fn warnings(topology: &Topology) -> Vec<String> {
    check(topology, &TopologyLines::default(), ValidationPolicy::Lenient)
        .warnings
        .into_iter()
        .map(|note| note.text)
        .collect()
}

fn chain() -> Topology {
    Topology { routing: Routing::Static, ..testing::nets(3, &[&[0, 1], &[1, 2]]) }
}

#[test]
fn a_sound_network_has_no_findings() {
    assert_eq!(check(&chain(), &TopologyLines::default(), ValidationPolicy::Strict), Findings::default());
}

#[test]
fn a_name_stands_for_one_thing() {
    let mut topology = chain();
    topology.nets[1].name = "h1".to_owned();
    topology.hosts[2].name = "-x".to_owned();
    let seen = errors(&topology);
    assert!(seen[0].starts_with("`-x` is no name for a host"), "{seen:?}");
    assert_eq!(seen[1], "`h1` is already the name of a host");
}

#[test]
fn names_stay_in_their_folder() {
    let mut topology = chain();
    topology.nets[0].name = "../x".to_owned();
    topology.nets[1].name = "..".to_owned();
    topology.programs =
        ["a.out", "a/b"].map(|name| crate::model::HostProgram { name: name.to_owned(), ..Default::default() }).to_vec();
    let seen = errors(&topology);
    assert_eq!(seen.len(), 4, "{seen:?}");
    assert_eq!(seen[0], "net `../x`: a name has no `/`, and is not `.` or `..`");
    // Emulab takes such names.
    assert_eq!(warnings(&topology), seen);
}

#[test]
fn link_has_two_lan_members_once() {
    let mut topology = chain();
    topology.nets[0].members[1].host = 0;
    let again = topology.nets[1].members[0].clone();
    topology.nets[1].members.push(again);
    topology.nets[1].kind = NetKind::Lan;
    assert_eq!(errors(&topology), ["`net0` links `h0` with itself", "`h1` is on `net1` twice"]);
    topology.nets[1].kind = NetKind::Link;
    assert_eq!(errors(&topology)[1], "`net1` is a link of 3 hosts, not 2");
    topology.nets[1].members.truncate(1);
    topology.nets[1].kind = NetKind::Lan;
    let lenient = ["`h2` is on no link or LAN", "`net0` links `h0` with itself", "`net1` has only one member"];
    assert_eq!(warnings(&topology), lenient);
}

#[test]
fn addresses_are_unique_in_one_subnet() {
    let mut topology = chain();
    let mut give =
        |net: usize, place: usize, text: &str| topology.nets[net].members[place].address = Some(address(text));
    give(0, 0, "10.9.0.2");
    give(0, 1, "10.9.1.3");
    give(1, 0, "10.9.1.255");
    give(1, 1, "10.9.0.2");
    let expected = [
        "10.9.0.2/24 and 10.9.1.3/24 on `net0` are not in one subnet",
        "10.9.1.255/24 of `net1` is no host's address",
        "10.9.0.2 is the address of both `h0` and `h2`",
        "10.9.1.255/24 and 10.9.0.2/24 on `net1` are not in one subnet",
        "`net0` and `net1` share the subnet 10.9.0.0/24",
    ];
    assert_eq!(errors(&topology), expected);
    let lenient = check(&topology, &TopologyLines::default(), ValidationPolicy::Lenient);
    assert_eq!((lenient.errors.len(), lenient.warnings.len()), (1, 4));
}

#[test]
fn missing_routes_make_host_unreachable() {
    for (routing, word) in [(Routing::None, "none"), (Routing::Manual, "manual")] {
        let topology = Topology { routing, ..chain() };
        let seen = errors(&topology);
        assert!(seen[0].starts_with(&format!("with routing {word}, `h0` has no way to `h2`")), "{seen:?}");
        assert_eq!(warnings(&topology).len(), 1);
    }
    let near = Topology { routing: Routing::None, ..testing::nets(3, &[&[0, 1, 2]]) };
    assert!(errors(&near).is_empty() && warnings(&near).is_empty());
}

#[test]
fn unconnected_components_are_warned() {
    let topology = Topology { routing: Routing::Static, ..testing::nets(4, &[&[0, 2], &[1, 3]]) };
    assert_eq!(warnings(&topology), ["nothing joins `h0` and `h1`: the network is in parts"]);
}
