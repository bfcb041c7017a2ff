//! A topology as a graph for Graphviz: hosts are ellipses, LANs are boxes.

use std::collections::BTreeMap;
use std::fmt::Write;

use roost_topology::Topology;
use roost_topology::model::Host;

use crate::disks::Spot;
use crate::lines::{LanLabel, Line, unplaced_lines};
use crate::places::{PlaceUnit, extent, host_places};

const CELL_INCHES: f64 = 1.3;
/// The longer side of a drawing of places in meters.
const SIDE_INCHES: f64 = 10.0;

/// Pale fills for classes, on which black text is legible: the hues of Okabe and Ito (2008), lightened.
const FILLS: [&str; 7] = ["#cfe6f5", "#fbdccb", "#cbeadf", "#efd9ea", "#f7e6bd", "#e3e8ee", "#e6d8c6"];

/// Writes an undirected graph. Hosts with cells or places are pinned to them; `neato` and `fdp` keep them there.
pub fn write(topology: &Topology, comment: &str) -> String {
    let mut text = String::new();
    for line in comment.lines() {
        put(&mut text, format_args!("// {line}\n"));
    }
    let spots = spots(topology);
    let engine = if spots.iter().any(Option::is_some) { "neato" } else { "sfdp" };
    put(&mut text, format_args!("graph {} {{\n", quoted(&topology.name)));
    put(&mut text, format_args!("  layout={engine}; overlap=prism; splines=true; outputorder=edgesfirst;\n"));
    text.push_str("  node [fontname=\"Helvetica\", fontsize=11, style=filled, fillcolor=white];\n");
    text.push_str("  edge [fontname=\"Helvetica\", fontsize=9, color=\"#5a6675\"];\n");
    let fills = fills(&topology.hosts);
    for (host, spot) in topology.hosts.iter().zip(spots) {
        put_host(&mut text, host, &fills, spot);
    }
    let lines = unplaced_lines(topology);
    lines.lans.iter().for_each(|lan| put_lan(&mut text, lan));
    lines.lines.iter().for_each(|line| put_line(&mut text, topology, line));
    if !lines.sentences.is_empty() {
        put(&mut text, format_args!("  label={};\n", quoted(&lines.sentences.join("\n"))));
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

/// The spot of each host in inches, if it has a place.
fn spots(topology: &Topology) -> Vec<Option<Spot>> {
    let (places, unit) = host_places(topology);
    let size = extent(places.iter().flatten());
    let inches = match unit {
        PlaceUnit::Cells => CELL_INCHES,
        PlaceUnit::Meters => SIDE_INCHES / size.x.max(size.y).max(1.0),
    };
    places.into_iter().map(|spot| spot.map(|spot| Spot { x: spot.x * inches, y: spot.y * inches })).collect()
}

fn put_host(text: &mut String, host: &Host, fills: &BTreeMap<&str, &'static str>, place: Option<Spot>) {
    put(text, format_args!("  {} [shape=ellipse", quoted(&host.name)));
    if let Some(class) = host.class.as_deref() {
        put(text, format_args!(", class={}, fillcolor=\"{}\"", quoted(class), fills.get(class).unwrap_or(&"white")));
    }
    if let Some(Spot { x, y }) = place {
        let [x, y] = [x, y].map(|inches| (inches * 1e3).round() / 1e3);
        put(text, format_args!(", pos=\"{x},{y}!\""));
    }
    text.push_str("];\n");
}

fn put_lan(text: &mut String, lan: &LanLabel) {
    let label = quoted(&format!("{}\n{}", lan.name, lan.values));
    put(text, format_args!("  {} [shape=box, fillcolor=\"#eef1f5\", label={label}];\n", quoted(&lan.name)));
}

fn put_line(text: &mut String, topology: &Topology, line: &Line) {
    let hosts = topology.hosts.len();
    let [one, other] = line.ends.map(|vertex| match topology.hosts.get(vertex) {
        Some(host) => host.name.as_str(),
        None => topology.nets.get(vertex - hosts).map_or("", |net| net.name.as_str()),
    });
    let label = line.label.as_ref().map_or_else(String::new, |label| format!("label={}, ", quoted(label)));
    let title = quoted(&line.title);
    put(text, format_args!("  {} -- {} [{label}tooltip={title}];\n", quoted(one), quoted(other)));
}

/// A string of the language: a line break becomes its escape.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use roost_topology::file::parse;

    const TEXT: &str = "[[host]]\nname = ['a', 'b']\nclass = 'air'\ncell = [1, 2]\n[[host]]\nname = 'hub'\n\
        [[link]]\nname = 'up'\nbetween = ['a', 'hub']\nrate = '1Mbit'\ndelay = '40ms'\nup = { loss = 0.01 }\n\
        [[lan]]\nname = 'net'\nmembers = ['a', 'b']\nrate = '10Mbit'\ndelay = '4ms'\n";

    #[test]
    fn hosts_lans_and_links_are_drawn() {
        let text = write(&parse("three", TEXT).unwrap(), "Made by hand.");
        for line in [
            "// Made by hand.",
            "graph \"three\" {",
            "  \"a\" [shape=ellipse, class=\"air\", fillcolor=\"#cfe6f5\", pos=\"1.3,2.6!\"];",
            "  \"hub\" [shape=ellipse];",
            "  \"net\" [shape=box, fillcolor=\"#eef1f5\", label=\"net\\n10Mbit, 2ms\"];",
            "  \"b\" -- \"net\" [tooltip=\"b on net: 10Mbit, 2ms\"];",
            "  \"a\" -- \"hub\" [label=\"1Mbit, 40ms, 1 % loss / back 1Mbit, 40ms\", tooltip=\"up: 1Mbit, 40ms, 1 % loss / back 1Mbit, 40ms\"];",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} is not in {text}");
        }
    }

    #[test]
    fn places_of_all_hosts_pin_them() {
        let text = "[[host]]\nname = ['a', 'b']\n[[link]]\nbetween = ['a', 'b']\nrate = '1Mbit'\n\
            [[motion.host]]\nname = 'a'\nposition = [0, 500]\n";
        let one = write(&parse("one", text).unwrap(), "");
        assert!(!one.contains("pos=") && one.contains("layout=sfdp"), "{one}");
        let both =
            write(&parse("both", &format!("{text}[[motion.host]]\nname = 'b'\nposition = [2000, 0]\n")).unwrap(), "");
        assert!(both.contains("pos=\"0,2.5!\"") && both.contains("pos=\"10,0!\""), "{both}");
    }

    #[test]
    fn hostile_names_stay_names() {
        assert_eq!(quoted("a\"]; x -- y \\"), "\"a\\\"]; x -- y \\\\\"");
    }
}
