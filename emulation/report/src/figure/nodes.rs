//! The figure of the services that each node completed, in the inks that its class has in the drawing of the network.

use std::collections::BTreeSet;

use roost_results::metrics::{Metrics, NodeUse};
use roost_topology::Topology;

use super::ink::Ink;
use super::{Figure, columns};
use crate::text_format::count;

pub(super) fn nodes(metrics: &Metrics, topology: Option<&Topology>) -> Option<Figure> {
    let mut requesters: Vec<&NodeUse> = metrics.nodes.iter().filter(|node| node.requests.asked > 0).collect();
    requesters.sort_by(|a, b| b.requests.completed.cmp(&a.requests.completed).then(a.node.cmp(&b.node)));
    let (most, fewest) = (requesters.first()?.requests.completed, requesters.last()?.requests.completed);
    let inks = class_inks(&requesters, topology);
    let ink = |node: &NodeUse| inks.iter().find(|(class, _)| *class == node.class).map_or(Ink::Blue, |(_, ink)| *ink);
    let name = |class: &str| if class.is_empty() { "no class".to_owned() } else { class.to_owned() };
    let key: Vec<(String, Ink)> = inks.iter().map(|(class, ink)| (name(class), *ink)).collect();
    (requesters.len() > 1).then(|| Figure {
        name: "nodes".into(),
        title: format!("A node completed from {} to {} services", count(fewest), count(most)),
        caption: "Services that each node asked for and that were completed.".into(),
        sheet: columns::nodes(&requesters, ink, if key.len() > 1 { &key } else { &[] }),
    })
}

/// The inks of the nodes' classes, as the drawing of the network has them: in the order in which the network names the
/// classes, and gray for none. Nodes that have none at all are blue.
fn class_inks<'a>(nodes: &[&'a NodeUse], topology: Option<&'a Topology>) -> Vec<(&'a str, Ink)> {
    let used: BTreeSet<&str> = nodes.iter().map(|node| node.class.as_str()).collect();
    let hosts = topology.iter().flat_map(|topology| &topology.hosts);
    let mut order: Vec<&str> = Vec::new();
    for class in hosts.filter_map(|host| host.class.as_deref()).chain(used.iter().copied()) {
        if !class.is_empty() && !order.contains(&class) {
            order.push(class);
        }
    }
    let all = (0..).zip(order).map(|(number, class)| (class, Ink::kind(number)));
    let none = if used.len() > 1 { Ink::Gray } else { Ink::Blue };
    all.chain([("", none)]).filter(|(class, _)| used.contains(class)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_has_ink_of_drawing() {
        let text = "lenient = true\n[[host]]\nname = 'h'\nclass = 'office'\n[[host]]\nname = 'b'\nclass = 'boat'\n";
        let topology = roost_topology::file::parse("t", text).unwrap_or_else(|problems| panic!("{problems:?}"));
        let node = |class: &str| NodeUse { class: class.to_owned(), ..NodeUse::default() };
        let nodes = [node("boat"), node("office"), node("zebra"), node("")];
        let inks = class_inks(&nodes.each_ref(), Some(&topology));
        let expected = [("office", Ink::Blue), ("boat", Ink::Vermilion), ("zebra", Ink::Green), ("", Ink::Gray)];
        assert_eq!(inks, expected);
        assert_eq!(class_inks(&[&nodes[0]], Some(&topology)), [("boat", Ink::Vermilion)]);
        assert_eq!(class_inks(&[&nodes[3]], None), [("", Ink::Blue)]);
    }
}
