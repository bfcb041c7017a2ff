//! The stays of a plan's members in its rooms.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use roost_core::node::MAX_ROOMS;
use roost_topology::Topology;
use roost_topology::units::format_duration;
use roost_wire::room::MAX_MEMBERS;
use roost_wire::{Service, Time};

use super::placement::{self, Placement};
use super::plan::{Named, Plan, PlanError, PlanErrors, Room, RoomMembers};
use super::prepare::Prepared;
use super::workload::generator;

/// The stay of one member in one room. Times are those of the workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomStay {
    pub room: String,
    /// Index among the nodes.
    pub node: usize,
    pub services: Vec<Service>,
    pub from: Time,
    pub until: Time,
    /// All further members, as indices among the nodes, with the times of their entries.
    pub others: Vec<(usize, Time)>,
}

impl Prepared {
    /// The stays in all rooms. They follow the plan's present seed, which may be another one than when it was read.
    pub fn room_stays(&self) -> Vec<RoomStay> {
        let Self { plan, placement, network, .. } = self;
        plan.rooms.iter().flat_map(|room| stays(room, members(room, plan, placement, network))).collect()
    }
}

/// Checks the members of all rooms; `file` is the plan's, for messages.
pub(super) fn check(plan: &Plan, placement: &Placement, network: &Topology, file: &Path) -> Result<(), PlanError> {
    let mut wrong = PlanErrors::default();
    for room in &plan.rooms {
        let error = |message: String| PlanError::new(file, room.members_line, message);
        if let RoomMembers::Hosts(hosts) = &room.members {
            let unknown = hosts.iter().filter_map(|named| check_host(named, placement, network, file).err());
            let unknown: Vec<PlanError> = unknown.collect();
            if !unknown.is_empty() {
                unknown.into_iter().for_each(|error| wrong.record_error(Err(error)));
                continue;
            }
        }
        let (nodes, count) = (placement.nodes.len(), members(room, plan, placement, network).len());
        wrong.record_error(match room.members {
            RoomMembers::Count(wanted) if wanted > nodes => {
                Err(error(format!("the room has {wanted} members, and the network {nodes} nodes")))
            }
            _ if count < 2 => Err(error(format!("a room needs two members at least, and this one has {count}"))),
            _ if count > MAX_MEMBERS => {
                Err(error(format!("a room has at most {MAX_MEMBERS} members, and this one has {count}")))
            }
            _ => check_last_entry(room, count, file),
        });
    }
    wrong.into_result()?;
    check_rooms_of_nodes(plan, placement, network, file)
}

/// Checks that no node is in more rooms at once than its daemon takes.
fn check_rooms_of_nodes(plan: &Plan, placement: &Placement, network: &Topology, file: &Path) -> Result<(), PlanError> {
    let stays_of = |room| stays(room, members(room, plan, placement, network));
    let mut all: Vec<(&Room, RoomStay)> =
        plan.rooms.iter().flat_map(|room| stays_of(room).into_iter().map(move |stay| (room, stay))).collect();
    all.sort_by_key(|(_, stay)| stay.from);
    let mut present: BTreeMap<usize, Vec<Time>> = BTreeMap::new();
    for (room, stay) in all {
        let ends = present.entry(stay.node).or_default();
        ends.retain(|end| *end > stay.from);
        if ends.len() >= MAX_ROOMS {
            let node = &placement.nodes[stay.node].name;
            let message = format!("{node} would be in more than {MAX_ROOMS} rooms at once, the most of a node");
            return Err(PlanError::new(file, room.name.line, message));
        }
        ends.push(stay.until);
    }
    Ok(())
}

/// Checks that a node runs on a member's host.
fn check_host(named: &Named, placement: &Placement, network: &Topology, file: &Path) -> Result<(), PlanError> {
    let host = placement::host(network, named, file)?;
    match placement.nodes.iter().any(|node| node.host == host) {
        true => Ok(()),
        false => Err(PlanError::new(file, named.line, format!("no node runs on host {}", named.name))),
    }
}

fn check_last_entry(room: &Room, count: usize, file: &Path) -> Result<(), PlanError> {
    let last = entry(room, count - 1);
    if last < room.until {
        return Ok(());
    }
    let told = format_duration;
    let message = format!("the last member would enter at {}, and all leave at {}", told(last), told(room.until));
    Err(PlanError::new(file, room.name.line, message))
}

/// The members in the order of their entries, each once.
fn members(room: &Room, plan: &Plan, placement: &Placement, network: &Topology) -> Vec<usize> {
    let all = 0..placement.nodes.len();
    match &room.members {
        RoomMembers::All => all.collect(),
        RoomMembers::Count(count) => {
            let (mut left, mut random) = (all.collect(), generator(plan.seed, &format!("room {}", room.name.name)));
            let mut draw = |left: &mut Vec<usize>| left.swap_remove(random.below(left.len() as u64) as usize);
            (0..(*count).min(placement.nodes.len())).map(|_| draw(&mut left)).collect()
        }
        RoomMembers::Hosts(hosts) => {
            let mut taken = BTreeSet::new();
            let hosts = hosts.iter().filter_map(|named| network.host_index(&named.name));
            let nodes = hosts.filter_map(|host| placement.nodes.iter().position(|node| node.host == host));
            nodes.filter(|node| taken.insert(*node)).collect()
        }
    }
}

fn stays(room: &Room, members: Vec<usize>) -> Vec<RoomStay> {
    let at = |position| Time::ZERO + entry(room, position);
    let others = |own: usize| {
        let others = members.iter().enumerate().filter(move |(position, _)| *position != own);
        others.map(|(position, node)| (*node, at(position))).collect()
    };
    let stay = |(position, node): (usize, &usize)| RoomStay {
        room: room.name.name.clone(),
        node: *node,
        services: room.services.clone(),
        from: at(position),
        until: Time::ZERO + room.until,
        others: others(position),
    };
    members.iter().enumerate().map(stay).collect()
}

/// The time at which the member at this position enters.
fn entry(room: &Room, position: usize) -> Duration {
    room.from + room.every.saturating_mul(u32::try_from(position).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = "topology = { star = { nodes = 5 } }\narchitecture = 'super-node'\nduration = '60s'\n\
                        reflect = true\n";

    fn prepared(room: &str) -> Result<Prepared, String> {
        let text = format!("{PLAN}[rooms.ops]\n{room}\n");
        Prepared::from_text(&text, Path::new("p.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn members_enter_one_by_one() {
        let hosts = "members = ['node3', 'node1']\nservices = ['track', 'video']\nfrom = '5s'\nevery = '2s'\n";
        let stays = prepared(&format!("{hosts}until = '50%'")).unwrap().room_stays();
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        let seen = stays.iter().map(|stay| (stay.node, stay.from, stay.until, stay.others.clone()));
        let expected = [(2, at(5), at(30), vec![(0, at(7))]), (0, at(7), at(30), vec![(2, at(5))])];
        assert_eq!(seen.collect::<Vec<_>>(), expected);
        assert_eq!(stays[0].services, [Service::Track, Service::Video]);
    }

    #[test]
    fn seed_chooses_a_number_of_members() {
        let mut prepared = prepared("members = 2").unwrap();
        let mut chosen = |seed| {
            prepared.plan.seed = seed;
            prepared.room_stays().iter().map(|stay| stay.node).collect::<BTreeSet<_>>()
        };
        assert_eq!((chosen(1), chosen(1).len()), (chosen(1), 2));
        assert!((2..20).any(|seed| chosen(seed) != chosen(1)));
    }

    #[test]
    fn effective_plan_keeps_its_rooms() {
        for members in ["'all'", "3", "['node1', 'node4']"] {
            let room = format!("members = {members}\nfrom = '1s'\nevery = '2s'\n[classes.star]\nmix = 'idle'");
            let first = prepared(&room).unwrap();
            let again = Prepared::from_text(&first.effective(), Path::new("q.toml")).unwrap();
            assert_eq!((again.room_stays(), again.effective()), (first.room_stays(), first.effective()));
        }
    }

    #[test]
    fn wrong_room_names_its_line() {
        for (room, told) in [
            ("members = ['node1', 'nod2']", "6: the topology has no host `nod2`; did you mean `node2`?"),
            ("members = ['node1', 'server']", "6: no node runs on host server"),
            ("members = []", "6: a room needs two members at least, and this one has 0"),
            ("members = ['node1', 'node1']", "6: a room needs two members at least, and this one has 1"),
            ("members = 5", "6: the room has 5 members, and the network 4 nodes"),
            ("members = 'some'", "6: `members` of a room: all, the number of members, or a list of their hosts"),
            ("members = 'all'\nservices = ['image']", "7: `image` is no stream: a room has video and track"),
            (
                "members = 'all'\nservices = ['vidio']",
                "7: `vidio` is no stream: a room has video and track; did you mean `video`?",
            ),
            ("members = 'all'\nservices = []", "7: a room without a service has no streams"),
            ("members = 'all'\nfrom = '9s'\nuntil = '8s'", "8: the members enter at 9s and leave at 8s"),
            ("members = 'all'\nfrom = '60s'", "7: the members enter at 60s and leave at 60s"),
            ("members = 'all'\nuntil = '61s'", "7: until 61s: the plan's duration is 60s"),
            ("members = 'all'\nevery = '20s'", "5: the last member would enter at 60s, and all leave at 60s"),
            ("members = 'all'\nfrm = '9s'", "7: `frm` is no key of a room; did you mean `from`?"),
        ] {
            assert_eq!(prepared(room).unwrap_err(), format!("p.toml:{told}"), "{room}");
        }
    }

    #[test]
    fn room_needs_super_nodes_that_reflect() {
        let wrong = |from: &str, to: &str| {
            let text = format!("{PLAN}[rooms.ops]\nmembers = 'all'\n").replace(from, to);
            Prepared::from_text(&text, Path::new("p.toml")).unwrap_err().to_string()
        };
        let reflect = "p.toml:4: super nodes reflect the streams of a room: set reflect = true";
        assert_eq!(wrong("reflect = true\n", ""), reflect);
        assert_eq!(wrong("reflect = true", "reflect = false").replace(":5:", ":4:"), reflect);
        let told = wrong("super-node'", "client-server'");
        assert!(told.ends_with("p.toml:5: `client-server` has no super nodes, and only they keep rooms"), "{told}");
        let text = format!("{PLAN}[classes.star]\nmix = 'idle'\n");
        let told = Prepared::from_text(&text, Path::new("p.toml")).unwrap_err().to_string();
        assert_eq!(told, "p.toml:5: nodes with the mix `idle` need a room: [rooms.NAME]");
        // The mistake of a room is no second one.
        let told = prepared("members = 'all'\nuntil = '61s'\n[classes.star]\nmix = 'idle'").unwrap_err();
        assert_eq!(told, "p.toml:7: until 61s: the plan's duration is 60s");
    }

    #[test]
    fn node_has_a_limit_of_rooms() {
        let read = |last: &str| {
            let room = |number: usize| format!("[rooms.r{number:02}]\nmembers = ['node1', 'node2']\nuntil = '30s'\n");
            let rooms: String = (0..MAX_ROOMS).map(room).collect();
            let text = format!("{PLAN}{rooms}[rooms.s]\nmembers = ['node2', 'node3']\nfrom = '{last}'\n");
            Prepared::from_text(&text, Path::new("p.toml")).map(drop).map_err(|error| error.to_string())
        };
        let told = "p.toml:53: node2 would be in more than 16 rooms at once, the most of a node";
        assert_eq!(read("29s"), Err(told.to_owned()));
        assert_eq!(read("30s"), Ok(()));
    }

    #[test]
    fn room_has_a_limit_of_members() {
        let crowd = PLAN.replace("nodes = 5", "nodes = 70") + "[rooms.ops]\nmembers = 'all'\n";
        let told = Prepared::from_text(&crowd, Path::new("p.toml")).unwrap_err().to_string();
        assert_eq!(told, "p.toml:6: a room has at most 64 members, and this one has 69");
    }
}
