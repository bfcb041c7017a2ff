//! A topology as a graph for Graphviz: hosts are ellipses, LANs are boxes.

use std::collections::BTreeMap;
use std::fmt::Write;

use roost_topology::Topology;
use roost_topology::model::Host;

use crate::lines::{LanLabel, Line, lines};

const CELL_INCHES: f64 = 1.3;

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
    let lines = lines(topology);
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

fn put_host(text: &mut String, host: &Host, fills: &BTreeMap<&str, &'static str>) {
    put(text, format_args!("  {} [shape=ellipse", quoted(&host.name)));
    if let Some(class) = host.class.as_deref() {
        put(text, format_args!(", class={}, fillcolor=\"{}\"", quoted(class), fills.get(class).unwrap_or(&"white")));
    }
    if let Some((x, y)) = host.cell {
        let inches = |cells: i32| (f64::from(cells) * CELL_INCHES * 1e3).round() / 1e3;
        put(text, format_args!(", pos=\"{},{}!\"", inches(x), inches(y)));
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
    fn hostile_names_stay_names() {
        assert_eq!(quoted("a\"]; x -- y \\"), "\"a\\\"]; x -- y \\\\\"");
    }
}
