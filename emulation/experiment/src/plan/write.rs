//! Writing of a plan with every default filled in.

use std::collections::BTreeMap;
use std::time::Duration;

use roost_results::TOPOLOGY_FILE;
use roost_topology::file::{TraceFile, TraceKey, burst_value, queue_value, quote};
use roost_topology::generate::{Forest, LegParameters, Star, TreeShape};
use roost_topology::model::{PacketOrder, Topology, TopologyChange};
use roost_topology::trace::TraceSide;
use roost_topology::units::format_duration;
use roost_wire::Role;

use super::{
    BackendChoice, DaemonSetting, Fault, FaultKind, LinkTrace, Locality, Mix, Named, Participation, Plan, PlanProgram,
    ProgramHosts, Room, RoomMembers, TopologySource,
};
use crate::placement::Placement;

/// Writes the plan with every choice filled in. A topology file is replaced by the one in the results.
pub(crate) fn write(plan: &Plan, placement: &Placement, topology: &Topology) -> String {
    let mut lines = vec![
        format!("name = {}", quote(&plan.name)),
        format!("topology = {}", source(&plan.topology)),
        format!("architecture = {}", quote(plan.architecture.name())),
    ];
    let tier = |tier: usize| {
        let hubs = placement.hubs.iter().filter(|hub| usize::from(hub.tier) == tier);
        hubs.map(|hub| quote(&topology.hosts[hub.host].name)).collect::<Vec<_>>().join(", ")
    };
    let tiers: Vec<String> = (0..placement.tiers()).map(tier).collect();
    match (plan.architecture.hub_role(), &tiers[..]) {
        (_, []) => {}
        (Role::Server, [server]) => lines.push(format!("server = {server}")),
        (Role::Server, [caches, server, ..]) => {
            lines.extend([format!("server = {server}"), format!("caches = [{caches}]")]);
        }
        (_, [only]) => lines.push(format!("super_nodes = [{only}]")),
        (_, tiers) => lines.push(format!("tiers = [[{}]]", tiers.join("], ["))),
    }
    lines.push(format!("transport = {}", quote(plan.transport.name())));
    let spans = [
        ("warm_up", plan.warm_up),
        ("duration", plan.duration),
        ("drain", plan.drain),
        ("timeout", plan.timeout),
        ("stream", plan.stream),
        ("idle", plan.idle),
    ];
    lines.extend(spans.map(|(key, length)| format!("{key} = {}", span(length))));
    lines.extend(plan.replay.iter().map(|replay| format!("replay = {}", quote(&replay.name))));
    lines.extend(plan.handshake.map(|length| format!("handshake = {}", span(length))));
    lines.extend(plan.reflect.then(|| "reflect = true".to_owned()));
    lines.extend((!plan.sealed_keys).then(|| "sealed_keys = false".to_owned()));
    lines.push(format!("seed = {}", plan.seed));
    lines.push(format!("linktest = {}", plan.linktest));
    lines.extend(plan.capture.iter().map(|capture| format!("capture = {}", capture.to_toml())));
    for (name, (part, locality)) in &placement.classes {
        lines.push(format!("\n[classes.{}]", quote(name)));
        lines.extend(class(*part, *locality));
    }
    lines.extend(homes(&plan.homes));
    lines.extend(plan.links.iter().flat_map(|(net, changes)| link(plan, net, changes)));
    lines.extend(plan.faults.iter().flat_map(fault));
    lines.extend(plan.rooms.iter().flat_map(room));
    lines.extend(environment(&plan.environment));
    lines.extend(plan.programs.iter().flat_map(program));
    lines.extend(plan.movement.map(|movement| format!("\n[movement]\nspeed = {}", float(movement.speed))));
    lines.extend(settings("node", &plan.settings.node));
    lines.extend(settings("hub", &plan.settings.hub));
    let backend = match plan.lab.backend {
        BackendChoice::Auto => "auto",
        BackendChoice::Tap => "tap",
        BackendChoice::Veth => "veth",
    };
    let tcp = quote(&plan.lab.tcp.to_string());
    lines.push(format!("\n[lab]\nbackend = {}\nrealtime = {}\ntcp = {tcp}\n", quote(backend), plan.lab.realtime));
    lines.join("\n")
}

fn span(length: Duration) -> String {
    quote(&format_duration(length))
}

fn source(source: &TopologySource) -> String {
    match source {
        TopologySource::File(_) => quote(TOPOLOGY_FILE),
        TopologySource::Star(Star { nodes, node, server }) => {
            let node = format!("rate = {}, delay = {}", quote(&node.rate.to_string()), span(node.delay));
            format!("{{ star = {{ nodes = {nodes}, {node}, {} }} }}", legs("server", *server))
        }
        TopologySource::Tree(tree) => {
            let TreeShape { x45, tactical, low } = tree.shape;
            let shape = format!("nodes = {}, x45 = {x45}, tactical = {tactical}, low = {low}", tree.shape.nodes());
            let classes = [("x45", tree.x45), ("tactical", tree.tactical), ("low", tree.low), ("server", tree.server)];
            let all = classes.map(|(class, of)| legs(class, of)).join(", ");
            format!("{{ tree = {{ {shape}, {all} }} }}")
        }
        TopologySource::Forest(forest) => {
            let Forest { nodes, per_home, per_middle, roots, area, node, home, middle, root } = *forest;
            let shape = format!(
                "nodes = {nodes}, per_home = {per_home}, per_middle = {per_middle}, roots = {roots}, area = {area}"
            );
            let classes = [("node", node), ("home", home), ("middle", middle), ("root", root)];
            let all = classes.map(|(class, of)| legs(class, of)).join(", ");
            format!("{{ forest = {{ {shape}, {all} }} }}")
        }
    }
}

fn legs(class: &str, legs: LegParameters) -> String {
    format!("{class}_rate = {}, {class}_delay = {}", quote(&legs.rate.to_string()), span(legs.delay))
}

fn float(value: f64) -> String {
    toml::Value::Float(value).to_string()
}

fn class(part: Participation, locality: Locality) -> Vec<String> {
    let Participation::Active(mix) = part else { return vec!["mix = \"none\"".to_owned()] };
    let locality = match locality {
        Locality::Link => "link",
        Locality::Anywhere => "anywhere",
    };
    vec![mixed(mix), format!("locality = {}", quote(locality))]
}

fn mixed(mix: Mix) -> String {
    if mix == Mix::IDLE {
        return "mix = \"idle\"".to_owned();
    }
    let [video, track, image, sensor, idle] = mix.percentages();
    format!("mix = {{ video = {video}, track = {track}, image = {image}, sensor = {sensor}, idle = {idle} }}")
}

fn homes(homes: &[(Named, Named)]) -> Vec<String> {
    let heading = (!homes.is_empty()).then(|| "\n[homes]".to_owned());
    let line = |(node, hub): &(Named, Named)| format!("{} = {}", quote(&node.name), quote(&hub.name));
    heading.into_iter().chain(homes.iter().map(line)).collect()
}

fn fault(fault: &Fault) -> Vec<String> {
    let mut lines = vec!["\n[[faults]]".to_owned(), format!("at = {}", span(fault.at))];
    match &fault.kind {
        FaultKind::Daemon(daemon, deed) => {
            lines.push(format!("{} = {}", deed.name(), quote(&daemon.host.name)));
            lines.extend(daemon.hub.then(|| "hub = true".to_owned()));
        }
        FaultKind::Net { net, from, changes } => lines.extend(net_fault(net, from.as_ref(), changes)),
    }
    lines
}

fn environment(variables: &BTreeMap<String, String>) -> Vec<String> {
    if variables.is_empty() {
        return Vec::new();
    }
    let heading = std::iter::once("\n[environment]".to_owned());
    heading.chain(variables.iter().map(|(name, value)| format!("{name} = {}", quote(value)))).collect()
}

fn program(program: &PlanProgram) -> Vec<String> {
    let mut lines = vec!["\n[[program]]".to_owned(), format!("name = {}", quote(&program.name.name))];
    lines.push(match &program.hosts {
        ProgramHosts::Class(class) => format!("class = {}", quote(&class.name)),
        ProgramHosts::Hosts(hosts) => {
            let hosts: Vec<String> = hosts.iter().map(|host| quote(&host.name)).collect();
            format!("host = [{}]", hosts.join(", "))
        }
    });
    lines.push(format!("command = {}", quote(&program.command)));
    lines.extend(program.folder.as_ref().map(|folder| format!("folder = {}", quote(folder))));
    lines.extend(program.root.as_ref().map(|root| format!("root = {}", quote(&root.name))));
    lines.push(format!("start = {}", span(program.start)));
    lines.extend(program.stop.map(|stop| format!("stop = {}", span(stop))));
    lines.extend(program.timeout.map(|timeout| format!("timeout = {}", span(timeout))));
    lines.extend(program.exit.map(|code| format!("exit = {code}")));
    lines.extend((!program.measure).then(|| "measure = false".to_owned()));
    if !program.environment.is_empty() {
        let pairs = program.environment.iter().map(|(name, value)| format!("{name} = {}", quote(value)));
        lines.push(format!("environment = {{ {} }}", pairs.collect::<Vec<_>>().join(", ")));
    }
    lines
}

fn room(room: &Room) -> Vec<String> {
    let list = |names: Vec<&str>| format!("[{}]", names.into_iter().map(quote).collect::<Vec<_>>().join(", "));
    let members = match &room.members {
        RoomMembers::All => quote("all"),
        RoomMembers::Count(count) => count.to_string(),
        RoomMembers::Hosts(hosts) => list(hosts.iter().map(|host| host.name.as_str()).collect()),
    };
    vec![
        format!("\n[rooms.{}]", quote(&room.name.name)),
        format!("members = {members}"),
        format!("services = {}", list(room.services.iter().map(|service| service.name()).collect())),
        format!("from = {}\nevery = {}\nuntil = {}", span(room.from), span(room.every), span(room.until)),
    ]
}

fn net_fault(net: &Named, from: Option<&Named>, changes: &[TopologyChange]) -> Vec<String> {
    let verb = match changes {
        [TopologyChange::Down] => "down",
        [TopologyChange::Up] => "up",
        _ => "change",
    };
    let mut lines = vec![format!("{verb} = {}", quote(&net.name))];
    lines.extend(from.map(|host| format!("from = {}", quote(&host.name))));
    lines.extend(values(changes));
    lines
}

fn settings(role: &str, settings: &[DaemonSetting]) -> Vec<String> {
    let heading = (!settings.is_empty()).then(|| format!("\n[settings.{role}]"));
    heading.into_iter().chain(settings.iter().map(DaemonSetting::line_of_file)).collect()
}

fn link(plan: &Plan, net: &Named, changes: &[TopologyChange]) -> Vec<String> {
    let traces = plan.traces.iter().filter(|trace| trace.net.name == net.name).map(trace).collect();
    [vec![format!("\n[links.{}]", quote(&net.name))], values(changes), traces].concat()
}

fn trace(LinkTrace { side, key, .. }: &LinkTrace) -> String {
    let name = match side {
        TraceSide::All => "trace",
        TraceSide::Up => "up.trace",
        TraceSide::Down => "down.trace",
    };
    match key {
        TraceKey::Off => format!("{name} = false"),
        TraceKey::File(TraceFile { file, start, once }) => {
            let start = start.map(|start| format!(", start = {}", span(start))).unwrap_or_default();
            let once = if *once { ", once = true" } else { "" };
            format!("{name} = {{ file = {}{start}{once} }}", quote(file))
        }
    }
}

fn values(changes: &[TopologyChange]) -> Vec<String> {
    let values = changes.iter().filter_map(|change| match change {
        TopologyChange::Rate(rate) => Some(format!("rate = {}", quote(&rate.to_string()))),
        TopologyChange::Delay(delay) => Some(format!("delay = {}", span(*delay))),
        TopologyChange::Jitter(jitter) => Some(format!("jitter = {}", span(*jitter))),
        TopologyChange::Loss(loss) => Some(format!("loss = {}", float(*loss))),
        TopologyChange::Burst(burst) => Some(format!("burst = {}", burst_value(*burst))),
        TopologyChange::Order(order) => Some(format!("reorder = {}", *order == PacketOrder::Free)),
        TopologyChange::Queue(queue) => Some(format!("queue = {}", queue_value(queue))),
        TopologyChange::Up | TopologyChange::Down => None,
    });
    values.collect()
}
