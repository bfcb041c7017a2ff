//! A topology as a graph for Graphviz: hosts are ellipses, LANs are boxes, and lines have the values of links and legs.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::leg_text::both_directions;
use crate::model::{Host, Net, NetKind, Topology};

/// The distance between two cells, inches.
const CELL: f64 = 1.3;

/// Pale fills for classes, on which black text is legible: the hues of Okabe and Ito (2008), lightened.
const FILLS: [&str; 7] = ["#cfe6f5", "#fbdccb", "#cbeadf", "#efd9ea", "#f7e6bd", "#e3e8ee", "#e6d8c6"];

/// Writes an undirected graph. Hosts with cells are pinned to them; `neato` and `fdp` keep them there.
pub fn write(topology: &Topology, comment: &str) -> String {
    let mut text = String::new();
    for line in comment.lines() {
        put(&mut text, format_args!("// {line}\n"));
    }
    let has_cells = topology.hosts.iter().any(|host| host.cell.is_some());
    let engine = if has_cells { "neato" } else { "sfdp" };
    put(&mut text, format_args!("graph {} {{\n", quoted(&topology.name)));
    put(&mut text, format_args!("  layout={engine}; overlap=prism; splines=true; outputorder=edgesfirst;\n"));
    text.push_str("  node [fontname=\"Helvetica\", fontsize=11, style=filled, fillcolor=white];\n");
    text.push_str("  edge [fontname=\"Helvetica\", fontsize=9, color=\"#5a6675\"];\n");
    let fills = fills(&topology.hosts);
    for host in &topology.hosts {
        put_host(&mut text, host, &fills);
    }
    for net in &topology.nets {
        put_net(&mut text, topology, net);
    }
    text.push_str("}\n");
    text
}

fn put(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing into a string cannot fail.
    text.write_fmt(line).ok();
}

/// The fill of each class, in the order in which the file names them.
fn fills(hosts: &[Host]) -> BTreeMap<&str, &'static str> {
    let mut fills = BTreeMap::new();
    for class in hosts.iter().filter_map(|host| host.class.as_deref()) {
        let next = FILLS[fills.len() % FILLS.len()];
        fills.entry(class).or_insert(next);
    }
    fills
}

fn put_host(text: &mut String, host: &Host, fills: &BTreeMap<&str, &'static str>) {
    put(text, format_args!("  {} [shape=ellipse", quoted(&host.name)));
    if let Some(class) = host.class.as_deref() {
        put(text, format_args!(", class={}, fillcolor=\"{}\"", quoted(class), fills.get(class).unwrap_or(&"white")));
    }
    if let Some((x, y)) = host.cell {
        // Rows of cells count downwards.
        put(text, format_args!(", pos=\"{},{}!\"", f64::from(x) * CELL, -f64::from(y) * CELL));
    }
    text.push_str("];\n");
}

fn put_net(text: &mut String, topology: &Topology, net: &Net) {
    let name = |place: usize| topology.hosts.get(net.members[place].host).map_or("", |host| host.name.as_str());
    if let (NetKind::Link, [one, other]) = (net.kind, &net.members[..]) {
        let values = both_directions(&one.to_net.joined(&other.from_net), &other.to_net.joined(&one.from_net));
        let label = quoted(&format!("{}\n{values}", net.name));
        put(text, format_args!("  {} -- {} [label={label}];\n", quoted(name(0)), quoted(name(1))));
        return;
    }
    let lan = quoted(&net.name);
    put(text, format_args!("  {lan} [shape=box, fillcolor=\"#eef1f5\"];\n"));
    for (place, member) in net.members.iter().enumerate() {
        let label = quoted(&both_directions(&member.to_net, &member.from_net));
        put(text, format_args!("  {} -- {lan} [label={label}];\n", quoted(name(place))));
    }
}

/// A string of the language: a line break becomes its escape.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::parse;

    const TEXT: &str = "[[host]]\nname = ['a', 'b']\nclass = 'air'\ncell = [1, 2]\n[[host]]\nname = 'hub'\n\
        [[link]]\nname = 'up'\nbetween = ['a', 'hub']\nrate = '1Mbit'\ndelay = '40ms'\nup = { loss = 0.01 }\n\
        [[lan]]\nname = 'net'\nmembers = ['a', 'b']\nrate = '10Mbit'\ndelay = '4ms'\n";

    #[test]
    fn hosts_lans_and_links_are_drawn() {
        let text = write(&parse("three", TEXT).unwrap(), "Made by hand.");
        for line in [
            "// Made by hand.",
            "graph \"three\" {",
            "  \"a\" [shape=ellipse, class=\"air\", fillcolor=\"#cfe6f5\", pos=\"1.3,-2.6!\"];",
            "  \"hub\" [shape=ellipse];",
            "  \"a\" -- \"hub\" [label=\"up\\n1Mbit, 40ms, 1 % loss / back 1Mbit, 40ms\"];",
            "  \"net\" [shape=box, fillcolor=\"#eef1f5\"];",
            "  \"b\" -- \"net\" [label=\"10Mbit, 2ms\"];",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} is not in {text}");
        }
    }

    #[test]
    fn hostile_names_stay_names() {
        assert_eq!(quoted("a\"]; x -- y \\"), "\"a\\\"]; x -- y \\\\\"");
    }
}
