//! Builds the topology of a file when it calls `$ns run`.

mod programs;
mod schedule;
mod traffic;

use std::collections::{BTreeSet, HashMap};

use roost_topology::emulab::EmulabFacts;
use roost_topology::model::{
    self, Discipline, Host, HostIndex, Leg, ManualRoute, NetIndex, NetKind, Queue, Red, RouteTarget, Routing, Topology,
};
use roost_topology::units::Rate;
use roost_topology::validate::TopologyLines;

use super::nodes::PLAIN;
use super::state::{NsLeg, NsMember, NsObject, NsObjectId, NsObjectKind, NsState};
use super::tcl::completion::{TclCompletion, TclError};
use super::tcl::interp::TclInterpreter;
use super::tcl::value::TclValue;
use super::units;

/// The topology's indices of the file's objects.
struct NsIndexMap {
    hosts: HashMap<NsObjectId, HostIndex>,
    nets: HashMap<NsObjectId, NetIndex>,
    programs: HashMap<NsObjectId, usize>,
    traffic: HashMap<NsObjectId, usize>,
}

/// Builds the topology, or refuses the file.
pub(crate) fn build(interp: &mut TclInterpreter) -> Result<(Topology, TopologyLines), TclCompletion> {
    let mut topology = Topology::default();
    let routing = if interp.world.routing_line > 0 { interp.world.routing_line } else { interp.line };
    let mut lines = TopologyLines { routing, ..TopologyLines::default() };
    let mut places =
        NsIndexMap { hosts: HashMap::new(), nets: HashMap::new(), programs: HashMap::new(), traffic: HashMap::new() };
    add_hosts(&interp.world, &mut topology, &mut places, &mut lines)?;
    add_nets(&interp.world, &mut topology, &mut places, &mut lines)?;
    add_routes(&interp.world, &mut topology, &places)?;
    let on_ops = programs::add(&interp.world, &mut topology, &mut places, &mut lines)?;
    for name in on_ops {
        interp.warn(format!("\"{name}\" would run on Emulab's own server, which is not here: left out"));
    }
    let first = traffic::add(&interp.world, &mut topology, &mut places, &mut lines)?;
    schedule::add(&interp.world, &mut topology, &places, first)?;
    topology.sync_server = interp.world.sync_server.and_then(|id| places.hosts.get(&id).copied());
    Ok((topology, lines))
}

/// Refuses an object, at the line that made it.
fn refuse<T>(object: &NsObject, why: &str) -> Result<T, TclCompletion> {
    Err(TclCompletion::Refused(Box::new(TclError::at(object.line, why))))
}

/// The value written by `$object set`, or an empty text.
fn variable<'a>(object: &'a NsObject, name: &str) -> &'a str {
    object.variables.get(name).map_or("", TclValue::as_str)
}

fn check_name(object: &NsObject, what: &str) -> Result<(), TclCompletion> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-';
    match object.name.chars().all(fits) && !object.name.is_empty() && object.name.len() <= 63 {
        true => Ok(()),
        false => refuse(
            object,
            &format!(
                "\"{}\" is no name for a {what}: only letters, digits and - may be in it (the variable it is stored in names it)",
                object.name
            ),
        ),
    }
}

fn add_hosts(
    world: &NsState,
    topology: &mut Topology,
    places: &mut NsIndexMap,
    lines: &mut TopologyLines,
) -> Result<(), TclCompletion> {
    for (id, object) in world.objects().filter(|(_, object)| matches!(object.kind, NsObjectKind::Node(_))) {
        check_name(object, "node")?;
        if object.name == "ops" {
            return refuse(object, "no node may be called \"ops\": it is the name of Emulab's own server");
        }
        let text = |name: &str| Some(variable(object, name)).filter(|text| !text.is_empty()).map(str::to_owned);
        places.hosts.insert(id, topology.hosts.len());
        lines.hosts.push(object.line);
        topology.hosts.push(Host {
            name: object.name.clone(),
            os: text("osid"),
            hardware: text("type"),
            ..Host::default()
        });
    }
    for (_, object) in world.objects() {
        let NsObjectKind::Firewall(firewall) = &object.kind else { continue };
        check_name(object, "firewall")?;
        lines.hosts.push(object.line);
        let (os, hardware) = (Some(firewall.os.to_owned()), Some("pc".to_owned()));
        topology.hosts.push(Host { name: object.name.clone(), os, hardware, ..Host::default() });
    }
    topology.routing = match world.routing.as_deref() {
        Some("static" | "static-ddijk" | "static-old") => Routing::Static,
        Some("ospf") => Routing::Session,
        Some("manual") => Routing::Manual,
        _ => Routing::None,
    };
    topology.emulab = EmulabFacts { routing: world.routing.clone(), ..EmulabFacts::default() };
    Ok(())
}

fn add_nets(
    world: &NsState,
    topology: &mut Topology,
    places: &mut NsIndexMap,
    lines: &mut TopologyLines,
) -> Result<(), TclCompletion> {
    for (id, object) in world.objects() {
        let NsObjectKind::Net(net) = &object.kind else { continue };
        check_name(object, if net.lan { "LAN" } else { "link" })?;
        if net.members.is_empty() {
            continue;
        }
        let kind = if net.lan { NetKind::Lan } else { NetKind::Link };
        check_addresses(object, &net.members, net.prefix)?;
        let mut members = Vec::new();
        for member in &net.members {
            let Some(&host) = places.hosts.get(&member.node) else { continue };
            let queue = queue_of(world.object(member.queue))?;
            members.push(model::NetMember {
                host,
                address: member.address,
                prefix: net.prefix,
                to_net: Leg { queue, ..leg(member.to_net) },
                from_net: leg(member.from_net),
            });
        }
        let index = topology.nets.len();
        places.nets.insert(id, index);
        lines.nets.push(object.line);
        if net.best_effort {
            topology.emulab.best_effort.push(index);
        }
        topology.nets.push(model::Net { name: object.name.clone(), kind, members, cost: net.cost });
    }
    Ok(())
}

fn leg(shape: NsLeg) -> Leg {
    Leg { rate: Rate::from_bps(shape.kbps * 1000), delay: shape.delay, loss: shape.loss, ..Leg::default() }
}

/// Checks that explicit addresses are hosts' addresses, and that there is room for the others.
fn check_addresses(object: &NsObject, members: &[NsMember], prefix: u8) -> Result<(), TclCompletion> {
    let host_mask = u32::MAX.checked_shr(prefix.into()).unwrap_or(0);
    for address in members.iter().filter_map(|member| member.address) {
        let host = u32::from(address) & host_mask;
        if host == 0 || host == host_mask {
            return refuse(
                object,
                &format!("{address} is the address of the whole net \"{}\" (/{prefix}), not of a host", object.name),
            );
        }
    }
    // Emulab counts up from .2, and the last address is the broadcast address. With explicit addresses the
    // others are in the same subnet.
    let given: BTreeSet<u32> = members.iter().filter_map(|member| member.address.map(u32::from)).collect();
    let subnet = given.first().map(|address| address & !host_mask);
    let taken = given.iter().filter(|&&it| Some(it & !host_mask) == subnet && it & host_mask >= 2).count();
    let room = (host_mask.saturating_sub(2) as usize).saturating_sub(taken);
    let wanted = members.iter().filter(|member| member.address.is_none()).count();
    match wanted > room {
        true => refuse(
            object,
            &format!(
                "\"{}\" has {wanted} members without an address, and its addresses (/{prefix}) are enough for {room}: tb-set-netmask makes room for more",
                object.name,
            ),
        ),
        false => Ok(()),
    }
}

fn queue_of(object: &NsObject) -> Result<Queue, TclCompletion> {
    let NsObjectKind::Queue(made) = &object.kind else { return Ok(Queue::DEFAULT) };
    let flag = |name: &str, default: bool| match variable(object, name) {
        "" => default,
        text => matches!(text, "1" | "true"),
    };
    let amount = |name: &str, default: u32| match units::queue_value(name, variable(object, name)) {
        // Fits u32: the number is at most 1e9.
        Some(number) => number as u32,
        None => default,
    };
    let red = Red {
        min_threshold: amount("thresh_", Red::DEFAULT.min_threshold),
        max_threshold: amount("maxthresh_", Red::DEFAULT.max_threshold),
        linterm: amount("linterm_", Red::DEFAULT.linterm),
        weight: units::queue_value("q_weight_", variable(object, "q_weight_")).unwrap_or(Red::DEFAULT.weight),
        gentle: flag("gentle_", made.gentle),
    };
    Ok(Queue {
        limit: amount("limit_", Queue::DEFAULT.limit),
        in_bytes: flag("queue-in-bytes_", false),
        discipline: if flag("red_", made.red) { Discipline::Red(red) } else { Discipline::DropTail },
    })
}

fn add_routes(world: &NsState, topology: &mut Topology, places: &NsIndexMap) -> Result<(), TclCompletion> {
    for (id, object) in world.objects() {
        let NsObjectKind::Node(node) = &object.kind else { continue };
        for (to, via) in &node.routes {
            let together = node.ports.iter().any(|(net, _)| {
                world.net(*net).is_some_and(|net| net.members.iter().any(|member| member.node == *via))
            });
            if !together {
                return refuse(
                    object,
                    &format!("\"{}\" has a route by \"{}\", which is no neighbour", object.name, world.name(*via)),
                );
            }
            let to = match (places.hosts.get(to), places.nets.get(to), world.node(*to)) {
                (Some(_), _, Some(target)) if target.ports.len() != 1 => {
                    let name = world.name(*to);
                    return refuse(
                        object,
                        &format!("the route to \"{name}\" is to one of its several interfaces: name the link or LAN"),
                    );
                }
                (Some(host), ..) => RouteTarget::Host(*host),
                (_, Some(net), _) => RouteTarget::Net(*net),
                _ => continue,
            };
            if let (Some(&host), Some(&via)) = (places.hosts.get(&id), places.hosts.get(via)) {
                topology.manual_routes.push(ManualRoute { host, to, via });
            }
        }
    }
    Ok(())
}
