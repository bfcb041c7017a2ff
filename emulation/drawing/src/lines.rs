//! The lines of a network: its links, and the legs of its LANs, with their values.

use std::collections::BTreeMap;

use roost_topology::Topology;
use roost_topology::model::{Net, NetKind, NetMember, RadioLinks};

use crate::leg_text::both_directions;
use crate::places::is_moved_apart;

/// A line of the drawing, between two of its vertices.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    pub ends: [usize; 2],
    pub title: String,
    /// The values, unless the key or the label of its LAN tells them.
    pub label: Option<String>,
}

/// The name of a LAN, and the values of most of its legs.
#[derive(Clone, Debug, PartialEq)]
pub struct LanLabel {
    pub vertex: usize,
    pub name: String,
    pub values: String,
}

/// The lines of a network, the labels of its LANs, and a sentence about lines without a label.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lines {
    pub lines: Vec<Line>,
    pub lans: Vec<LanLabel>,
    pub sentences: Vec<String>,
}

/// The lines of a drawing in which hosts stand as [`crate::by_place`] or [`crate::layout()`] puts them.
pub fn lines(topology: &Topology) -> Lines {
    let mut found = unplaced_lines(topology);
    if is_moved_apart(topology) {
        found.sentences.push("Hosts that would cover each other were moved apart.".to_owned());
    }
    found
}

/// The lines of a drawing in which another program places hosts.
pub(crate) fn unplaced_lines(topology: &Topology) -> Lines {
    let mut found = Lines::default();
    for (index, net) in topology.nets.iter().enumerate() {
        match (net.kind, &net.members[..]) {
            (NetKind::Link, [one, other]) => {
                let values = both_directions(&one.to_net.joined(&other.from_net), &other.to_net.joined(&one.from_net));
                let title = format!("{}: {values}", net.name);
                let ends = [one.host, other.host];
                found.lines.push(Line { ends, title, label: Some(values) });
            }
            _ => found.add_lan(topology, index, net),
        }
    }
    found.drop_common(topology.hosts.len());
    found
}

impl Lines {
    fn add_lan(&mut self, topology: &Topology, index: usize, net: &Net) {
        let vertex = topology.hosts.len() + index;
        let radio = topology.radio(index).map(|radio| radio_values(&radio.links));
        let values = |member: &NetMember| match radio {
            Some(radio) => radio.to_owned(),
            None => both_directions(&member.to_net, &member.from_net),
        };
        let legs: Vec<String> = net.members.iter().map(values).collect();
        let common = most_common(legs.iter().map(String::as_str)).map(|(common, _)| common).unwrap_or_default();
        self.lans.push(LanLabel { vertex, name: net.name.clone(), values: common.clone() });
        for (member, values) in net.members.iter().zip(&legs) {
            let host = topology.hosts.get(member.host).map_or("", |host| host.name.as_str());
            let title = format!("{host} on {}: {values}", net.name);
            let label = (*values != common).then(|| difference(values, &common));
            self.lines.push(Line { ends: [member.host, vertex], title, label });
        }
    }

    /// A sentence tells the values that many links have in common.
    fn drop_common(&mut self, hosts: usize) {
        let is_link = |line: &Line| line.ends[1] < hosts;
        let labels = self.lines.iter().filter(|line| is_link(line)).filter_map(|line| line.label.as_deref());
        if let Some(common) = most_common(labels).filter(|(_, count)| *count > 4).map(|(common, _)| common) {
            for line in self.lines.iter_mut().filter(|line| is_link(line) && line.label.as_ref() == Some(&common)) {
                line.label = None;
            }
            self.sentences.push(format!("Links without a label: {common}."));
        }
        if !self.lans.is_empty() {
            self.sentences.push(
                "A LAN's label tells the values of its legs, each way; a leg's own label what differs.".to_owned(),
            );
        }
    }
}

/// The links of a radio, which follow from places.
const fn radio_values(links: &RadioLinks) -> &'static str {
    match links {
        RadioLinks::Pairs => "radio, pairs",
        RadioLinks::Shared(_) => "radio, shared",
        RadioLinks::Access(_) => "radio, access",
    }
}

/// The values of a leg that are not among the common ones; all if it has fewer than they, or other ones each way.
fn difference(values: &str, common: &str) -> String {
    let parts = |text: &'_ str| text.split(", ").map(str::to_owned).collect::<Vec<_>>();
    let (own, usual) = (parts(values), parts(common));
    let differing: Vec<String> = own.iter().filter(|part| !usual.contains(part)).cloned().collect();
    let is_whole = values.contains(" / ") || own.len() < usual.len() || differing.is_empty();
    if is_whole { values.to_owned() } else { differing.join(", ") }
}

/// The text that comes most often, the first in order among equals, and how often.
fn most_common<'a>(texts: impl Iterator<Item = &'a str>) -> Option<(String, usize)> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    texts.for_each(|text| *counts.entry(text).or_default() += 1);
    let most = counts.iter().rev().max_by_key(|(_, count)| **count)?;
    Some(((*most.0).to_owned(), *most.1))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use roost_topology::file::parse;
    use roost_topology::trace::{Playback, Trace, TraceContent, TraceSide};

    #[test]
    fn exceptions_alone_have_labels() {
        let lan = parse(
            "lan",
            "[[host]]\nname = 'n[1-5]'\n[[lan]]\nname = 'net'\nmembers = 'n[1-5]'\nrate = '1Mbit'\n\
             leg = [{ host = 'n5', rate = '2Mbit' }]\n",
        );
        let lines = lines(&lan.unwrap());
        let label = LanLabel { vertex: 5, name: "net".to_owned(), values: "1Mbit".to_owned() };
        assert_eq!(lines.lans, [label]);
        let labels: Vec<_> = lines.lines.iter().map(|line| line.label.as_deref()).collect();
        assert_eq!(labels, [None, None, None, None, Some("2Mbit")]);
    }

    #[test]
    fn radios_and_traces_have_words() {
        let text = "lenient = true\n[[host]]\nname = ['a', 'b']\n[[motion.host]]\nname = 'a'\nposition = [0, 0]\n\
            [[motion.host]]\nname = 'b'\nposition = [9, 0]\n[[radio]]\nname = 'r'\nmembers = ['a', 'b']\n\
            frequency = '2.4GHz'\npower = '20dBm'\nbandwidth = '20MHz'\nrate = '8Mbit'\nrange = '1km'\nlinks = 'shared'\n\
            [[link]]\nname = 'l'\nbetween = ['a', 'b']\nrate = '1Mbit'\n";
        let mut topology = parse("radio", text).unwrap();
        let net = topology.net_index("l").unwrap();
        let content = TraceContent::Opportunities(vec![1]);
        let trace = Arc::new(Trace { path: "t".into(), sha256: String::new(), content });
        let playback = Arc::new(Playback { file: "t".to_owned(), start: Duration::ZERO, once: false, trace });
        roost_topology::trace::play(&mut topology.nets[net], TraceSide::All, Some(&playback));
        let lines = lines(&topology);
        assert_eq!(lines.lans[0].values, "radio, shared");
        assert!(lines.lines.iter().any(|line| line.label.as_deref() == Some("trace")), "{:?}", lines.lines);
    }

    #[test]
    fn labels_tell_what_differs() {
        let common = "2Mbit, 5ms, 0.501 % loss";
        assert_eq!(difference("2Mbit, 14ms, 0.501 % loss", common), "14ms");
        assert_eq!(difference("2Mbit, 14ms", common), "2Mbit, 14ms");
        assert_eq!(difference("2Mbit, 5ms / back 2Mbit", common), "2Mbit, 5ms / back 2Mbit");
    }

    #[test]
    fn common_values_are_told_once() {
        let text = "[[host]]\nname = ['hub', 'n[1-5]']\n[[link]]\nbetween = ['hub', 'n[1-5]']\nrate = '1Mbit'\n\
                    [[link]]\nname = 'more'\nbetween = ['n1', 'n2']\nrate = '2Mbit'\ndown = { rate = '3Mbit' }\n";
        let lines = lines(&parse("links", text).unwrap());
        assert_eq!(lines.sentences, ["Links without a label: 1Mbit."]);
        assert_eq!(
            lines.lines.iter().filter_map(|line| line.label.as_deref()).collect::<Vec<_>>(),
            ["2Mbit / back 3Mbit"]
        );
    }
}
