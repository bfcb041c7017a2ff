//! Changes of a topology, as a plan names them: `topology.host.NAME`, and so `link`, `lan` and `radio`.

use std::collections::BTreeMap;
use std::path::Path;

use ::toml::{Spanned, Table, Value};
use serde::Deserialize;

use super::fields::SourceText;
use super::radio::RadioFile;
use super::radio_changes::change_radio;
use super::shape::{LegOverrides, QueueFile, Shape, with_shape};
use super::values::Pair;
use crate::model::{Leg, Net, NetKind, Note, Queue, Routing, Topology};
use crate::suggest::did_you_mean;

/// The keys of a plan's `topology` that change it.
pub const CHANGE_KEYS: [&str; 5] = ["host", "link", "lan", "radio", "routing"];

#[derive(Default, Deserialize)]
#[serde(default)]
struct ChangedPlan {
    topology: ChangesFile,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ChangesFile {
    host: BTreeMap<Spanned<String>, HostChange>,
    link: BTreeMap<Spanned<String>, NetChange>,
    lan: BTreeMap<Spanned<String>, NetChange>,
    radio: BTreeMap<Spanned<String>, RadioFile>,
    routing: Option<Routing>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct HostChange {
    class: Option<String>,
    cell: Option<Pair>,
}

with_shape!(NetChange {
    up: Shape,
    down: Shape,
    #[serde(deserialize_with = "crate::file::values::cost")]
    cost: Option<f64>,
    leg: BTreeMap<Spanned<String>, LegChange>,
});

with_shape!(LegChange { up: Shape, down: Shape });

struct LegChangeSet {
    values: LegOverrides,
    /// A new limit of the queue, which stays as it is otherwise.
    limit: Option<u32>,
}

impl LegChangeSet {
    fn new(mut values: LegOverrides, queue: Option<&Spanned<QueueFile>>) -> Self {
        let limit = queue.and_then(|queue| queue.get_ref().only_limit());
        if limit.is_some() {
            values.queue = None;
        }
        Self { values, limit }
    }

    fn lay_over(&self, leg: &mut Leg) {
        self.values.lay_over(leg);
        leg.queue = self.limit.map_or(leg.queue, |limit| Queue { limit, ..leg.queue });
    }

    fn halves(&self) -> (Self, Self) {
        let (to_net, from_net) = self.values.halves();
        (Self { values: to_net, limit: self.limit }, Self { values: from_net, limit: self.limit })
    }
}

/// Reads a set of changes out of a table with the keys of a shape.
macro_rules! changes_of {
    ($source:expr, $table:expr) => {
        LegChangeSet::new($table.shape($source), $table.queue.as_ref())
    };
}

/// Applies the changes in the table `topology` of a plan's text; false if it has none.
///
/// A value of a link or LAN is end to end, both ways, and replaces the values of single legs; one of a direction comes
/// over it, and one of a leg comes last. Of a queue, the limit alone may change. Traces are relative to `folder`.
///
/// # Errors
/// All mistakes, by line.
pub fn apply(topology: &mut Topology, folder: &Path, plan: &str) -> Result<bool, Vec<Note>> {
    let table = plan.parse::<Table>().ok();
    let keys = table.as_ref().and_then(|table| table.get("topology")).and_then(Value::as_table);
    let Some(keys) = keys.filter(|keys| CHANGE_KEYS.iter().any(|key| keys.contains_key(*key))) else {
        return Ok(false);
    };
    let source = SourceText::new(plan).within(folder);
    let Some(ChangedPlan { topology: file }) = source.read("a plan") else { return Err(source.problems()) };
    let is_read = source.problems().is_empty();
    let changes = ChangeReader { source: &source };
    topology.routing = file.routing.unwrap_or(topology.routing);
    file.host.iter().for_each(|(name, change)| changes.change_host(topology, name, change));
    file.link.iter().for_each(|(name, change)| changes.change_net(topology, name, NetKind::Link, change));
    file.lan.iter().for_each(|(name, change)| changes.change_net(topology, name, NetKind::Lan, change));
    if is_read {
        changes.change_radios(topology, &file.radio, keys);
    }
    let problems = source.problems();
    if problems.is_empty() { Ok(true) } else { Err(problems) }
}

struct ChangeReader<'a> {
    source: &'a SourceText<'a>,
}

impl ChangeReader<'_> {
    fn change_host(&self, topology: &mut Topology, name: &Spanned<String>, change: &HostChange) {
        let Some(index) = topology.host_index(name.get_ref()) else {
            let near = did_you_mean(name.get_ref(), topology.hosts.iter().map(|host| host.name.as_str()));
            return self
                .source
                .refuse(name.span().start, format!("the topology has no host `{}`{near}", name.get_ref()));
        };
        let host = &mut topology.hosts[index];
        host.class = change.class.clone().or(host.class.take());
        host.cell = change.cell.map(|Pair(x, y)| (x, y)).or(host.cell);
    }

    fn change_net(&self, topology: &mut Topology, name: &Spanned<String>, kind: NetKind, change: &NetChange) {
        let at = name.span().start;
        let (word, other) = if kind == NetKind::Link { ("link", "lan") } else { ("LAN", "link") };
        let Some(index) = topology.net_index(name.get_ref()) else {
            let near = did_you_mean(name.get_ref(), topology.nets.iter().map(|net| net.name.as_str()));
            return self.source.refuse(at, format!("the topology has no {word} `{}`{near}", name.get_ref()));
        };
        if topology.nets[index].kind != kind {
            let message = format!("`{0}` is no {word}: write topology.{other}.{0}", name.get_ref());
            return self.source.refuse(at, message);
        }
        if topology.radio(index).is_some() {
            return self.source.refuse(at, format!("`{0}` is a radio: write topology.radio.{0}", name.get_ref()));
        }
        let own = changes_of!(self.source, change);
        let directions = [changes_of!(self.source, change.up), changes_of!(self.source, change.down)];
        let net = &mut topology.nets[index];
        net.cost = change.cost.unwrap_or(net.cost);
        match kind {
            NetKind::Link => change_link(net, &own, &directions),
            NetKind::Lan => change_lan(net, &own, &directions),
        }
        for (host, leg) in &change.leg {
            self.change_leg(topology, index, host, leg);
        }
    }

    fn change_radios(&self, topology: &mut Topology, radios: &BTreeMap<Spanned<String>, RadioFile>, keys: &Table) {
        let tables = keys.get("radio").and_then(Value::as_table);
        for (name, change) in radios {
            if let Some(given) = tables.and_then(|tables| tables.get(name.get_ref())).and_then(Value::as_table) {
                change_radio(self.source, topology, name, change, given);
            }
        }
    }

    fn change_leg(&self, topology: &mut Topology, net: usize, host: &Spanned<String>, change: &LegChange) {
        let both = changes_of!(self.source, change);
        let directions = [changes_of!(self.source, change.up), changes_of!(self.source, change.down)];
        let index = topology.host_index(host.get_ref());
        let members = &topology.nets[net].members;
        let Some(place) = members.iter().position(|member| Some(member.host) == index) else {
            let names = members.iter().map(|member| topology.hosts[member.host].name.as_str());
            let near = did_you_mean(host.get_ref(), names);
            let message = format!("`{}` is not on `{}`{near}", host.get_ref(), topology.nets[net].name);
            return self.source.refuse(host.span().start, message);
        };
        let member = &mut topology.nets[net].members[place];
        for (direction, leg) in directions.iter().zip([&mut member.to_net, &mut member.from_net]) {
            both.lay_over(leg);
            direction.lay_over(leg);
        }
    }
}

/// Changes both directions of a link; `up` leads from the first host to the second.
fn change_link(net: &mut Net, own: &LegChangeSet, directions: &[LegChangeSet; 2]) {
    let [first, second] = net.members.as_mut_slice() else { return };
    let ends = [(&mut first.to_net, &mut second.from_net), (&mut second.to_net, &mut first.from_net)];
    for ((to_net, from_net), direction) in ends.into_iter().zip(directions) {
        let before = to_net.joined(from_net);
        let mut whole = before.clone();
        own.lay_over(&mut whole);
        direction.lay_over(&mut whole);
        if whole != before {
            (*to_net, *from_net) = whole.halves();
        }
    }
}

fn change_lan(net: &mut Net, own: &LegChangeSet, directions: &[LegChangeSet; 2]) {
    let (to_net, from_net) = own.halves();
    for member in &mut net.members {
        to_net.lay_over(&mut member.to_net);
        from_net.lay_over(&mut member.from_net);
        directions[0].lay_over(&mut member.to_net);
        directions[1].lay_over(&mut member.from_net);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::file::parse;
    use crate::model::Discipline;

    const TOPOLOGY: &str = "[[host]]\nname = ['a', 'b', 'c']\ncell = [1, 1]\nstep = [1, 0]\n[[link]]\nname = 'sat'\n\
        between = ['a', 'b']\nrate = '1Mbit'\ndelay = '40ms'\nloss = 0.02\n\
        queue = { limit = 30000, in = 'bytes', red = true }\n\
        [[lan]]\nname = 'net'\nmembers = ['a', 'b', 'c']\nrate = '10Mbit'\ndelay = '10ms'\n\
        leg = [{ host = 'c', delay = '90ms' }]\n";

    fn changed(text: &str) -> Result<Topology, String> {
        let mut topology = parse("t", TOPOLOGY).unwrap();
        let plan = format!("duration = '9s'\n[topology]\nfile = 't.toml'\n{text}");
        let told = |notes: Vec<Note>| notes.iter().map(|note| format!("{}: {}\n", note.line, note.text)).collect();
        apply(&mut topology, Path::new(""), &plan)
            .map_err(|notes: Vec<Note>| -> String { told(notes) })
            .map(|_| topology)
    }

    #[test]
    fn plans_without_changes_change_nothing() {
        let mut topology = parse("t", TOPOLOGY).unwrap();
        let before = topology.clone();
        for plan in ["topology = 't.toml'\n", "[topology.star]\nnodes = 3\n", "topology = 3\n", "[[["] {
            assert_eq!(apply(&mut topology, Path::new(""), plan), Ok(false), "{plan}");
        }
        assert_eq!(topology, before);
    }

    #[test]
    fn link_values_are_end_to_end() {
        let topology = changed("link.sat.delay = '300ms'\nlink.sat.down.loss = 0.5\n").unwrap();
        let [first, second] = topology.nets[0].members.as_slice() else { panic!() };
        let (up, down) = (first.to_net.joined(&second.from_net), second.to_net.joined(&first.from_net));
        assert_eq!((up.delay, down.delay), (Duration::from_millis(300), Duration::from_millis(300)));
        assert!((up.loss - 0.02).abs() < 1e-9 && (down.loss - 0.5).abs() < 1e-9);
        assert_eq!((up.queue.limit, up.queue.in_bytes), (30_000, true));
    }

    #[test]
    fn limit_alone_keeps_the_queue() {
        let queue = |text: &str| changed(text).unwrap().nets[0].members[0].to_net.queue;
        let kept = queue("link.sat.queue.limit = 9000\n");
        assert!(kept.limit == 9000 && kept.in_bytes && matches!(kept.discipline, Discipline::Red(_)), "{kept:?}");
        let whole = queue("link.sat.queue = { limit = 9, in = 'packets' }\n");
        assert_eq!(whole, Queue { limit: 9, ..Queue::DEFAULT });
    }

    #[test]
    fn lan_and_leg_values_reach_legs() {
        let topology =
            changed("lan.net.delay = '40ms'\nlan.net.leg.b.delay = '7ms'\nlan.net.queue.limit = 5\n").unwrap();
        let member = |place: usize| &topology.nets[1].members[place];
        assert_eq!(member(2).to_net.delay, Duration::from_millis(20), "exceptions end");
        assert_eq!(
            (member(1).to_net.delay, member(1).from_net.delay),
            (Duration::from_millis(7), Duration::from_millis(7))
        );
        assert_eq!((member(0).to_net.queue.limit, member(0).from_net.queue.limit), (5, 5));
        assert_eq!(member(0).to_net.rate, "10Mbit".parse().unwrap());
    }

    #[test]
    fn hosts_change_cell_and_class() {
        let topology = changed("host.b = { cell = [7, 9], class = 'low' }\nrouting = 'session'\n").unwrap();
        assert_eq!((topology.hosts[1].cell, topology.hosts[1].class.as_deref()), (Some((7, 9)), Some("low")));
        assert_eq!((topology.hosts[0].cell, topology.routing), (Some((1, 1)), Routing::Session));
    }

    #[test]
    fn all_mistakes_have_line_and_remedy() {
        let told = changed(
            "link.satt.delay = '1s'\nlink.net.delay = '1s'\nlan.net.leg.d.delay = '1s'\nhost.x.cell = [1, 2]\n",
        );
        let expected = "4: the topology has no link `satt`; did you mean `sat`?\n5: `net` is no link: write topology.lan.net\n\
                        6: `d` is not on `net`\n7: the topology has no host `x`\n";
        assert_eq!(told.unwrap_err(), expected);
        let told = changed("link.sat.dealy = '1s'\nhost.a.cel = [1, 2]\nlan.net.leg.a.loss = 2\n").unwrap_err();
        let expected = "4: `dealy` is no key of a link; did you mean `delay`?\n5: `cel` is no key of a host; did you mean `cell`?\n\
                        6: `loss` of a leg is a probability from 0 to 1: 1 % is 0.01\n";
        assert_eq!(told, expected);
    }
}
