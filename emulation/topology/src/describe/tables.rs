//! The description as tables.

use roost_terminal::Table;

use super::radio;
use crate::addresses::{AddressError, assign};
use crate::emulab;
use crate::file::compress;
use crate::model::{
    Burst, Discipline, Host, HostProgram, Leg, Net, NetKind, Note, PacketOrder, Queue, Routing, Topology, TrafficAgent,
};
use crate::trace::{Playback, Trace};
use crate::units::{format_duration, format_percent};

pub struct Section {
    /// The heading, with the number of entries.
    pub title: String,
    pub table: Table,
}

/// Lists everything that a topology holds, for people. Consecutive hosts that are alike share a row.
///
/// # Errors
/// Fails when some interface gets no address.
pub fn sections(topology: &Topology) -> Result<Vec<Section>, AddressError> {
    let assigned = assign(topology)?;
    let all = [
        hosts(&assigned),
        links(&assigned),
        lans(&assigned),
        traces(topology),
        radios(topology),
        motion(topology),
        events(topology),
        programs(topology),
        traffic(topology),
        notes("Ignored: understood, no effect here", &topology.notes.ignored),
        notes("Doubtful", &topology.notes.warnings),
    ];
    Ok(all.into_iter().flatten().collect())
}

fn section(title: impl Into<String>, columns: &[&'static str], rows: Vec<Vec<String>>) -> Option<Section> {
    let mut table = Table::new(columns);
    let empty = rows.is_empty();
    rows.into_iter().for_each(|row| table.row(row));
    (!empty).then(|| Section { title: title.into(), table })
}

fn radios(topology: &Topology) -> Option<Section> {
    let rows = radio::radio_rows(topology);
    let columns = ["RADIO", "LINKS", "MEMBERS", "MODEL", "POWER", "BAND", "RATE"];
    section(format!("Radios: {}", rows.len()), &columns, rows)
}

fn motion(topology: &Topology) -> Option<Section> {
    let rows = radio::motion_rows(topology);
    section(format!("Hosts with places: {}", rows.len()), &["HOST", "COURSE", "UNTIL"], rows)
}

fn hosts(topology: &Topology) -> Option<Section> {
    let interfaces = topology.interfaces();
    let dash = |text: Option<&str>| text.unwrap_or("-").to_owned();
    let row = |(index, host): (usize, &Host)| {
        let addresses = interfaces[index].iter().filter_map(|(net, place)| topology.nets[*net].members[*place].address);
        let addresses: Vec<String> = addresses.map(|address| address.to_string()).collect();
        vec![
            host.name.clone(),
            dash(host.class.as_deref()),
            host.cell.map_or_else(|| "-".to_owned(), |(x, y)| format!("{x},{y}")),
            dash(host.os.as_deref()),
            dash(host.hardware.as_deref()),
            addresses.join(" "),
        ]
    };
    let rows: Vec<Vec<String>> = topology.hosts.iter().enumerate().map(row).collect();
    let routing = match topology.routing {
        Routing::None => "no routes",
        Routing::Static => "static routes",
        Routing::Session => "routes as a routing daemon would find them",
        Routing::Manual => "routes left to the experimenter",
    };
    let title = format!("Hosts: {}, {routing}", topology.hosts.len());
    let columns = ["HOST", "CLASS", "CELL", "OS", "HARDWARE", "ADDRESSES"];
    let (columns, rows) = without_empty(&columns, rows);
    section(title, &columns, rows)
}

/// Removes columns that are empty in every row.
fn without_empty(columns: &[&'static str], rows: Vec<Vec<String>>) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let says = |column: &usize| rows.iter().any(|row| row[*column] != "-");
    let kept: Vec<usize> = (0..columns.len()).filter(says).collect();
    let pick = |row: &Vec<String>| kept.iter().map(|column| row[*column].clone()).collect();
    (kept.iter().map(|column| columns[*column]).collect(), rows.iter().map(pick).collect())
}

const VALUES: [&str; 4] = [">RATE", ">DELAY", ">LOSS", "QUEUE"];

fn links(topology: &Topology) -> Option<Section> {
    let name = |host: usize| topology.hosts[host].name.as_str();
    let mut rows = Vec::new();
    let links = topology.nets.iter().filter(|net| net.kind == NetKind::Link);
    let count = links.clone().count();
    for net in links {
        let [a, b] = net.members.as_slice() else { continue };
        let (up, down) = (values(&a.to_net.joined(&b.from_net)), values(&b.to_net.joined(&a.from_net)));
        let row = |arrow: &str, values: [String; 4]| {
            let head = [net.name.clone(), format!("{} {arrow} {}", name(a.host), name(b.host))];
            head.into_iter().chain(values).collect()
        };
        if up == down {
            rows.push(row("<->", up));
        } else {
            rows.extend([row("-->", up), row("<--", down)]);
        }
    }
    let columns = [&["LINK", "BETWEEN"], VALUES.as_slice()].concat();
    section(format!("Links: {count}, values end to end"), &columns, rows)
}

fn lans(topology: &Topology) -> Option<Section> {
    let lans: Vec<&Net> = topology.wired_nets().iter().filter(|net| net.kind == NetKind::Lan).collect();
    let rows = lans.iter().flat_map(|net| lan_rows(topology, net)).collect();
    let columns = [&["LAN", "HOSTS", "DIRECTION"], VALUES.as_slice()].concat();
    section(format!("LANs: {}, values of each host's own leg", lans.len()), &columns, rows)
}

/// A row for each run of members with the same legs.
fn lan_rows(topology: &Topology, net: &Net) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for group in net.members.chunk_by(|a, b| (&a.to_net, &a.from_net) == (&b.to_net, &b.from_net)) {
        let Some(member) = group.first() else { continue };
        let names = compress(group.iter().map(|member| topology.hosts[member.host].name.as_str()));
        let (to_net, from_net) = (values(&member.to_net), values(&member.from_net));
        let row = |direction: &str, values: [String; 4]| {
            let head = [net.name.clone(), names.join(" "), direction.to_owned()];
            head.into_iter().chain(values).collect()
        };
        if to_net == from_net {
            rows.push(row("both", to_net));
        } else {
            rows.extend([row("to net", to_net), row("from net", from_net)]);
        }
    }
    rows
}

fn values(leg: &Leg) -> [String; 4] {
    let delay = match (leg.jitter.is_zero(), leg.order) {
        (true, _) => format_duration(leg.delay),
        (false, order) => {
            let order = if order == PacketOrder::Free { ", reordering" } else { "" };
            format!("{} + 0 to {}{order}", format_duration(leg.delay), format_duration(leg.jitter))
        }
    };
    let loss = match leg.burst {
        None => format_percent(leg.loss),
        Some(burst) => format!("{}, bursts {}", format_percent(leg.loss), burst_text(&burst)),
    };
    let given = leg.trace.as_deref().map(|playback| playback.trace.content.first());
    let given = given.unwrap_or_default();
    let by_trace = |is_given: bool, text: String| if is_given { "trace".to_owned() } else { text };
    [
        by_trace(leg.rate_trace().is_some(), leg.rate.to_string()),
        by_trace(given.delay.is_some(), delay),
        by_trace(given.loss.is_some(), loss),
        queue_text(&leg.queue),
    ]
}

/// The traces, and where each of them plays.
fn traces(topology: &Topology) -> Option<Section> {
    let mut rows: Vec<(&Playback, Vec<String>)> = Vec::new();
    for net in &topology.nets {
        for member in &net.members {
            let name = &topology.hosts[member.host].name;
            for (leg, side) in [(&member.to_net, "from"), (&member.from_net, "to")] {
                let Some(playback) = leg.trace.as_deref() else { continue };
                let place = format!("{} {side} {name}", net.name);
                match rows.iter_mut().find(|(other, _)| *other == playback) {
                    Some((_, places)) => places.push(place),
                    None => rows.push((playback, vec![place])),
                }
            }
        }
    }
    let row = |(playback, places): &(&Playback, Vec<String>)| {
        let Trace { sha256, content, .. } = &*playback.trace;
        let short = sha256.get(..12).unwrap_or_default().to_owned();
        let length = format_duration(content.period());
        vec![playback.describe(), content.describe(), length, short, places.join(", ")]
    };
    let columns = ["TRACE", "GIVES", ">LENGTH", "SHA-256", "PLAYS ON"];
    section(format!("Traces: {}", rows.len()), &columns, rows.iter().map(row).collect())
}

fn burst_text(burst: &Burst) -> String {
    format!(
        "{} of {:.1} packets, losing {}",
        format_percent(burst.enter),
        1.0 / burst.leave,
        format_percent(burst.loss)
    )
}

fn queue_text(queue: &Queue) -> String {
    let unit = if queue.in_bytes { "bytes" } else { "packets" };
    match queue.discipline {
        Discipline::DropTail => format!("{} {unit}", queue.limit),
        Discipline::Red(red) => {
            let name = if red.gentle { "gentle RED" } else { "RED" };
            format!("{} {unit}, {name} {} to {}", queue.limit, red.min_threshold, red.max_threshold)
        }
    }
}

fn events(topology: &Topology) -> Option<Section> {
    let rows: Vec<Vec<String>> = emulab::events(topology)
        .into_iter()
        .map(|row| {
            let at = format_duration(row.at);
            // A line of a sequence has no time of its own.
            let at = match &row.parent {
                Some(list) if row.at.is_zero() => format!("in {list}"),
                Some(list) => format!("in {list}, {at}"),
                None => at,
            };
            vec![at, row.object, row.kind, row.event, one_line(&row.args)]
        })
        .collect();
    section(format!("Events: {}", rows.len()), &[">AT", "OBJECT", "TYPE", "EVENT", "ARGUMENTS"], rows)
}

fn programs(topology: &Topology) -> Option<Section> {
    let row = |program: &HostProgram| {
        let host = topology.hosts[program.host].name.clone();
        vec![program.name.clone(), host, one_line(&program.command)]
    };
    let rows = topology.programs.iter().map(row).collect();
    section(format!("Programs: {}", topology.programs.len()), &["PROGRAM", "HOST", "COMMAND"], rows)
}

fn traffic(topology: &Topology) -> Option<Section> {
    let row = |agent: &TrafficAgent| {
        let name = |host: usize| topology.hosts[host].name.clone();
        vec![
            agent.name.clone(),
            name(agent.host),
            if agent.is_source { "source" } else { "sink" }.to_owned(),
            format!("{}/{}", if agent.tcp { "tcp" } else { "udp" }, agent.port),
            agent.target.map_or_else(|| "-".to_owned(), name),
        ]
    };
    let rows = topology.traffic.iter().map(row).collect();
    let columns = ["AGENT", "HOST", "ROLE", "PORT", "TARGET"];
    section(format!("Traffic: {}", topology.traffic.len()), &columns, rows)
}

fn notes(title: &str, notes: &[Note]) -> Option<Section> {
    let line = |line: u32| if line == 0 { "-".to_owned() } else { line.to_string() };
    let rows = notes.iter().map(|note| vec![line(note.line), note.text.clone()]).collect();
    section(title, &[">LINE", "WHAT"], rows)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file;

    fn shown(text: &str) -> String {
        let sections = sections(&file::parse("t", text).unwrap()).unwrap();
        let shown = sections.iter().map(|it| format!("{}\n{}", it.title, it.table.render(str::to_owned)));
        shown.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn equal_members_share_row() {
        let text = "[[host]]\nname = [\"n[1-4]\", \"s\"]\n[[lan]]\nname = \"net\"\nmembers = [\"n[1-4]\", \"s\"]\nrate = \"1Mbit\"\n\
                    delay = \"30ms\"\nloss = 0.01\nleg = [{ host = \"s\", up = { jitter = \"3ms\" }, loss = 0 }]\n";
        let expected = "\
LANs: 1, values of each host's own leg
LAN  HOSTS   DIRECTION   RATE          DELAY        LOSS  QUEUE
net  n[1-4]  both       1Mbit           15ms  0.501256 %  50 packets
net  s       to net     1Mbit  15ms + 0 to 3ms         0 %  50 packets
net  s       from net   1Mbit           15ms         0 %  50 packets
";
        let shown = shown(text);
        let lans: String = shown.split("LANs").nth(1).map(|rest| format!("LANs{rest}")).unwrap();
        let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(squeeze(&lans), squeeze(expected), "{shown}");
    }

    #[test]
    fn asymmetric_link_has_two_rows() {
        let text = "[[host]]\nname = [\"a\", \"b\"]\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"8Mbit\"\nup = { rate = \"1Mbit\" }\n\
                    queue = { limit = 20, red = true }\n[[event]]\nat = \"2s\"\nnet = \"a-b\"\ndo = \"down\"\n";
        let shown = shown(text);
        assert!(shown.contains("a --> b") && shown.contains("a <-- b") && shown.contains("RED 5 to 15"), "{shown}");
        assert!(shown.contains("Events: 1") && shown.contains("DOWN"), "{shown}");
    }
}
