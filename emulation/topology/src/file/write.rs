//! Writing of our own format, as short as an exact reading back allows.

use super::shape::LegOverrides;
use super::stanza::{Stanza, list, quote, table};
use super::{motion_text, names, radio_text, schedule_text};
use crate::model::{Host, Leg, Net, NetKind, NetMember, Routing, Topology};
use crate::validate::{self, TopologyLines, ValidationPolicy};

/// Writes a topology. Reading the text gives an equal topology, except for its notes, facts that only Emulab's
/// listings show, and line numbers. `comment` comes first, if it is not empty.
pub fn write(topology: &Topology, comment: &str) -> String {
    let mut stanzas = vec![head(topology)];
    stanzas.extend(hosts(&topology.hosts));
    stanzas.extend(nets(topology));
    stanzas.extend(radio_text::radios(topology));
    stanzas.extend(motion_text::motion(topology));
    stanzas.extend(schedule_text::routes(topology));
    stanzas.extend(schedule_text::programs(topology));
    stanzas.extend(schedule_text::traffic(topology));
    stanzas.extend(schedule_text::events(topology));
    let mut text: String = comment.lines().map(|line| format!("# {line}").trim_end().to_owned() + "\n").collect();
    for stanza in stanzas {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&stanza.to_string());
    }
    text
}

fn head(topology: &Topology) -> Stanza {
    let routing = match topology.routing {
        Routing::None => "none",
        Routing::Static => "static",
        Routing::Session => "session",
        Routing::Manual => "manual",
    };
    let mut stanza = Stanza::new("");
    stanza.text("name", &topology.name);
    stanza.text("routing", routing);
    let errors = |policy| !validate::check(topology, &TopologyLines::default(), policy).errors.is_empty();
    if errors(ValidationPolicy::Strict) && !errors(ValidationPolicy::Lenient) {
        stanza.raw("lenient", "true");
    }
    stanza.optional("sync_server", topology.sync_server.map(|host| topology.hosts[host].name.as_str()));
    stanza
}

/// Writes hosts; consecutive ones that are alike share a stanza.
pub(super) fn hosts(hosts: &[Host]) -> Vec<Stanza> {
    let mut stanzas = Vec::new();
    let mut rest = hosts;
    while let Some(first) = rest.first() {
        let count = (2..=rest.len()).take_while(|count| is_group(&rest[..*count])).last().unwrap_or(1);
        let (group, others) = rest.split_at(count);
        stanzas.push(host_stanza(first, group));
        rest = others;
    }
    stanzas
}

/// True if the last host of a group has the values of the first and the next name and cell in the sequence.
fn is_group(group: &[Host]) -> bool {
    let [first, second, ..] = group else { return true };
    let [.., before, last] = group else { return true };
    let like = |host: &Host| (host.class.clone(), host.os.clone(), host.hardware.clone());
    if like(first) != like(last) {
        return false;
    }
    match (before.cell, last.cell) {
        (None, None) => true,
        (Some(_), Some(_)) => {
            names::follows(&before.name, &last.name) && distance(before, last) == distance(first, second)
        }
        _ => false,
    }
}

/// The distance between two hosts' cells, in columns and rows.
fn distance(from: &Host, to: &Host) -> Option<(i64, i64)> {
    let (from, to) = from.cell.zip(to.cell)?;
    Some((i64::from(to.0) - i64::from(from.0), i64::from(to.1) - i64::from(from.1)))
}

fn host_stanza(first: &Host, group: &[Host]) -> Stanza {
    let mut stanza = Stanza::new("[[host]]");
    let words = names::compress(group.iter().map(|host| host.name.as_str()));
    stanza.raw("name", words_value(&words));
    stanza.optional("class", first.class.as_deref());
    if let Some(cell) = first.cell {
        stanza.raw("cell", format!("[{}, {}]", cell.0, cell.1));
    }
    let step = group.get(1).and_then(|second| distance(first, second)).filter(|step| *step != (0, 0));
    if let Some((columns, rows)) = step {
        stanza.raw("step", format!("[{columns}, {rows}]"));
    }
    stanza.optional("os", first.os.as_deref());
    stanza.optional("hardware", first.hardware.as_deref());
    stanza
}

/// Writes one word as a text and more as a list.
pub(super) fn words_value(words: &[String]) -> String {
    match words {
        [one] => quote(one),
        more => list(more.iter().map(|word| quote(word))),
    }
}

fn nets(topology: &Topology) -> Vec<Stanza> {
    let mut stanzas = Vec::new();
    let mut rest = topology.wired_nets();
    while let Some(first) = rest.first() {
        let spokes = (2..=rest.len()).take_while(|count| are_spokes(topology, &rest[..*count])).last().unwrap_or(1);
        let (group, others) = rest.split_at(spokes);
        stanzas.push(net_stanza(topology, first, group));
        rest = others;
    }
    stanzas
}

/// True if the last of some links joins the same host as the first, with the same values, to the host whose
/// name follows that of the one before.
fn are_spokes(topology: &Topology, links: &[Net]) -> bool {
    let ([first, ..], [.., before, last]) = (links, links) else { return true };
    let link = |net: &Net| net.kind == NetKind::Link && net.name == default_name(topology, net);
    let plain = |net: &Net| net.members.iter().all(|member| member.address.is_none());
    let values = |net: &Net| net.members.iter().map(|it| (it.prefix, it.to_net.clone(), it.from_net.clone())).collect();
    let (one, other): (Vec<_>, Vec<_>) = (values(first), values(last));
    let whole = |net: &Net| base(net).1;
    link(first)
        && link(last)
        && plain(last)
        && first.cost.to_bits() == last.cost.to_bits()
        && one == other
        && whole(first)
        && first.members[0].host == last.members[0].host
        && names::follows(far_end(topology, before), far_end(topology, last))
}

fn far_end<'a>(topology: &'a Topology, link: &Net) -> &'a str {
    link.members.get(1).map_or("", |member| &topology.hosts[member.host].name)
}

fn default_name(topology: &Topology, net: &Net) -> String {
    let ends: Vec<&str> = net.members.iter().map(|member| topology.hosts[member.host].name.as_str()).collect();
    ends.join("-")
}

fn net_stanza(topology: &Topology, net: &Net, group: &[Net]) -> Stanza {
    let host = |member: &NetMember| topology.hosts[member.host].name.as_str();
    let mut stanza = match net.kind {
        NetKind::Link => Stanza::new("[[link]]"),
        NetKind::Lan => Stanza::new("[[lan]]"),
    };
    match net.kind {
        NetKind::Link => {
            if net.name != default_name(topology, net) {
                stanza.text("name", &net.name);
            }
            let far = names::range(group.iter().map(|net| far_end(topology, net)));
            stanza.raw("between", list([quote(net.members.first().map_or("", host)), quote(&far)].into_iter()));
        }
        NetKind::Lan => {
            stanza.text("name", &net.name);
            let words = names::compress(net.members.iter().map(host));
            stanza.raw("members", list(words.iter().map(|word| quote(word))));
        }
    }
    values(topology, net, &mut stanza);
    stanza
}

/// Writes the values of a link or LAN: common ones, then those of directions, then of single legs.
fn values(topology: &Topology, net: &Net, stanza: &mut Stanza) {
    let ((up, down), _) = base(net);
    stanza.shape(&LegOverrides { rate: Some(up.rate), ..LegOverrides::between(&Leg::default(), &up) });
    if net.kind == NetKind::Link && up != down {
        let mut inner = Stanza::new("");
        inner.shape(&LegOverrides::between(&up, &down));
        stanza.raw("down", table(&inner));
    }
    if net.cost.to_bits() != 1.0_f64.to_bits() {
        stanza.raw("cost", format!("{:?}", net.cost));
    }
    let prefix = net.members.first().map_or(24, |member| member.prefix);
    if prefix != 24 {
        stanza.raw("prefix", prefix.to_string());
    }
    let addresses: Option<Vec<String>> = net.members.iter().map(|it| Some(quote(&it.address?.to_string()))).collect();
    let all_given = addresses.as_ref().is_some_and(|addresses| !addresses.is_empty());
    if let Some(addresses) = addresses.filter(|_| all_given) {
        stanza.raw("addresses", list(addresses.into_iter()));
    }
    let legs = legs(topology, net, &up, &down, prefix, all_given);
    match legs.as_slice() {
        [] => {}
        [one] => stanza.raw("leg", format!("[{one}]")),
        many => stanza.raw("leg", format!("[\n    {},\n]", many.join(",\n    "))),
    }
}

/// The values to write for all legs: a link's two directions end to end, or a LAN's most common values. The
/// flag is true if they describe the net completely.
fn base(net: &Net) -> ((Leg, Leg), bool) {
    let pair = match (net.kind, net.members.as_slice()) {
        (NetKind::Link, [a, b]) => (whole_of(&a.to_net, &b.from_net), whole_of(&b.to_net, &a.from_net)),
        _ => {
            let wholes = net.members.iter().map(|member| whole_of(&member.to_net, &member.from_net));
            let most = most_common(wholes).unwrap_or_default();
            (most.clone(), most)
        }
    };
    let exact = read_back(net, &pair.0, &pair.1).zip(&net.members).all(|((to_net, from_net), member)| {
        LegOverrides::between(&to_net, &member.to_net) == LegOverrides::default()
            && LegOverrides::between(&from_net, &member.from_net) == LegOverrides::default()
    });
    (pair, exact)
}

/// The most frequent item; the first of equals.
pub fn most_common<T: PartialEq>(items: impl Iterator<Item = T>) -> Option<T> {
    let mut counted: Vec<(T, usize)> = Vec::new();
    for item in items {
        match counted.iter_mut().find(|(other, _)| *other == item) {
            Some((_, count)) => *count += 1,
            None => counted.push((item, 1)),
        }
    }
    let most = counted.into_iter().rev().max_by_key(|(_, count)| *count);
    most.map(|(item, _)| item)
}

/// The legs that the reader would make from a base.
fn read_back<'a>(net: &'a Net, up: &'a Leg, down: &'a Leg) -> impl Iterator<Item = (Leg, Leg)> + 'a {
    (0..net.members.len()).map(move |place| match (net.kind, place) {
        (NetKind::Link, 0) => (up.halves().0, down.halves().1),
        (NetKind::Link, _) => (down.halves().0, up.halves().1),
        (NetKind::Lan, _) => (up.halves().0, Leg { queue: up.queue, ..up.halves().1 }),
    })
}

/// The direction that [`Leg::halves`] would split into these legs, as nearly as there is one, with the loss of
/// the fewest digits.
pub fn whole_of(to_net: &Leg, from_net: &Leg) -> Leg {
    let joined = to_net.joined(from_net);
    let rounded = (0..17).filter_map(|digits| format!("{:.digits$e}", joined.loss).parse::<f64>().ok());
    let exact = |loss: &f64| {
        let half = Leg { loss: *loss, ..Leg::default() }.halves().0.loss;
        half.to_bits() == to_net.loss.to_bits()
    };
    let loss = rounded.chain([joined.loss]).find(|loss| (0.0..=1.0).contains(loss) && exact(loss));
    let delay = joined.delay.min(crate::model::MAX_DELAY);
    Leg { rate: to_net.rate, delay, loss: loss.unwrap_or(0.0), ..to_net.clone() }
}

/// Writes the members that differ from the base; equal ones share a stanza.
fn legs(topology: &Topology, net: &Net, up: &Leg, down: &Leg, prefix: u8, all_given: bool) -> Vec<String> {
    let mut groups: Vec<(Stanza, Vec<&str>)> = Vec::new();
    for ((to_net, from_net), member) in read_back(net, up, down).zip(&net.members) {
        let mut stanza = Stanza::new("");
        let up = LegOverrides::between(&to_net, &member.to_net);
        let down = LegOverrides::between(&from_net, &member.from_net);
        if up == down {
            stanza.shape(&up);
        } else {
            stanza.inner("up", &up);
            stanza.inner("down", &down);
        }
        if member.prefix != prefix {
            stanza.raw("prefix", member.prefix.to_string());
        }
        if let Some(address) = member.address.filter(|_| !all_given) {
            stanza.text("address", &address.to_string());
        }
        if stanza.is_empty() {
            continue;
        }
        let name = topology.hosts[member.host].name.as_str();
        match groups.iter_mut().find(|(other, _)| *other == stanza) {
            Some((_, names)) => names.push(name),
            None => groups.push((stanza, vec![name])),
        }
    }
    let text = |(mut stanza, names): (Stanza, Vec<&str>)| {
        stanza.first("host", words_value(&names::compress(names)));
        table(&stanza)
    };
    groups.into_iter().map(text).collect()
}
