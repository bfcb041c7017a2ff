//! Compares the output of `emulate check --json` with an expected listing, such as one made with Emulab's own
//! parser. The expectation has everything that a file says, and nothing that it leaves open.
//!
//! Automatic addresses may differ: they must only be unique and in one subnet. The order of nodes, nets and of
//! events at one time is ignored; that of members counts. A delay below 2 ms may have lost its fraction in the
//! expectation, as Emulab stores whole milliseconds. A queue that is left out is DropTail of 50 packets.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::Ipv4Addr;

use serde_json::Value;

use super::load::LoadError;

type Same = fn(f64, f64) -> bool;

/// The largest difference of two losses: listings have nine digits.
const LOSS_TOLERANCE: f64 = 2e-9;
/// The largest difference of times and delays, in their own units.
const TOLERANCE: f64 = 1e-6;
/// Delays below this, in milliseconds, may have lost their fraction.
const WHOLE_FROM_MS: f64 = 2.0;
/// The default prefix of a net.
const PREFIX: u64 = 24;

/// Lists each difference between `ours` and `expected` in a line. Fields that `expected` lacks are ignored.
pub fn differences(ours: &Value, expected: &Value) -> Vec<String> {
    let mut found = Differences::default();
    if expected["emulab_parser"] == "rejects" {
        let why = expected["emulab_error"].as_str().unwrap_or("no reason is given");
        return vec![format!("it should be refused: {why}")];
    }
    found.nodes(&ours["nodes"], &expected["nodes"]);
    found.nets(&ours["lans"], &expected["lans"]);
    found.chosen_addresses(&ours["lans"]);
    found.fields("counts", &ours["counts"], &expected["counts"]);
    found.events(&ours["events"], &expected["events"]);
    for list in ["programs", "trafgens"] {
        found.named(list, &ours[list], &expected[list], Differences::fields);
    }
    found.lines
}

/// Checks the refusal of a file that had to be refused: every mistake must name its line.
pub fn refusal_differences(error: &LoadError) -> Vec<String> {
    match error {
        LoadError::Wrong { problems, .. } => {
            let lineless = problems.iter().filter(|problem| problem.line == 0);
            lineless.map(|problem| format!("it is refused without a line: {}", problem.text)).collect()
        }
        other => vec![format!("it is not read at all: {other}")],
    }
}

#[derive(Default)]
struct Differences {
    lines: Vec<String>,
}

impl Differences {
    fn add(&mut self, place: &str, ours: &Value, expected: &Value) {
        self.lines.push(format!("{place} is {}, not {}", shown(ours), shown(expected)));
    }

    fn nodes(&mut self, ours: &Value, expected: &Value) {
        self.named("nodes", ours, expected, |found, place, ours, expected| {
            found.fields(place, ours, expected);
            if ours.get("os").is_some() && expected.get("os").is_none() {
                found.add(&format!("{place}.os"), &ours["os"], &Value::Null);
            }
        });
    }

    fn named(&mut self, list: &str, ours: &Value, expected: &Value, compare: fn(&mut Self, &str, &Value, &Value)) {
        let (ours, expected) = (by_name(ours), by_name(expected));
        for (name, expected) in &expected {
            match ours.get(name) {
                Some(ours) => compare(self, &format!("{list}.{name}"), ours, expected),
                None => self.lines.push(format!("{list}.{name} is missing")),
            }
        }
        let more = ours.keys().filter(|name| !expected.contains_key(*name));
        self.lines.extend(more.map(|name| format!("{list}.{name} is not expected")));
    }

    fn fields(&mut self, place: &str, ours: &Value, expected: &Value) {
        for (key, expected) in expected.as_object().into_iter().flatten() {
            let ours = &ours[key];
            let same = match (number(ours), number(expected)) {
                (Some(a), Some(b)) => (a - b).abs() < TOLERANCE,
                // Emulab keeps the braces that it adds around a folder.
                _ if key == "dir" => text(ours) == unbraced(&text(expected)),
                _ => text(ours) == text(expected),
            };
            if !same {
                self.add(&format!("{place}.{key}"), ours, expected);
            }
        }
    }

    fn nets(&mut self, ours: &Value, expected: &Value) {
        self.named("lans", ours, expected, |found, place, ours, expected| {
            if ours["kind"] != expected["kind"] {
                found.add(&format!("{place}.kind"), &ours["kind"], &expected["kind"]);
            }
            let same_delay = if expected["kind"] == "link" { same_half } else { same_lan_delay };
            found.members(place, items(&ours["members"]), items(&expected["members"]), same_delay);
            for expected in items(&expected["one_way"]) {
                let same = |way: &&Value| way["frm"] == expected["frm"] && way["to"] == expected["to"];
                let place = format!("{place} {} to {}", shown(&expected["frm"]), shown(&expected["to"]));
                match items(&ours["one_way"]).iter().find(same) {
                    Some(ours) => found.leg(&place, ours, expected, same_whole),
                    None => found.lines.push(format!("{place} is missing")),
                }
            }
        });
    }

    fn members(&mut self, place: &str, ours: &[Value], expected: &[Value], same_delay: Same) {
        if ours.len() != expected.len() {
            self.lines.push(format!("{place} has {} members, not {}", ours.len(), expected.len()));
            return;
        }
        for (at, (ours, expected)) in ours.iter().zip(expected).enumerate() {
            let place = format!("{place}.members[{at}]");
            for key in ["node", "port", "ip_is_auto"] {
                if ours[key] != expected[key] {
                    self.add(&format!("{place}.{key}"), &ours[key], &expected[key]);
                }
            }
            if expected["ip_is_auto"] == false && ours["ip"] != expected["ip"] {
                self.add(&format!("{place}.ip"), &ours["ip"], &expected["ip"]);
            }
            for leg in ["to_net", "from_net"] {
                self.leg(&format!("{place}.{leg}"), &ours[leg], &expected[leg], same_delay);
            }
            let (ours, expected) = (queue(&ours["queue"]), queue(&expected["queue"]));
            for (key, ours) in &ours {
                match expected.get(key) {
                    Some(expected) if expected != ours => {
                        self.lines.push(format!("{place}.queue.{key} is {ours}, not {expected}"))
                    }
                    _ => {}
                }
            }
        }
    }

    fn leg(&mut self, place: &str, ours: &Value, expected: &Value, same_delay: Same) {
        for (key, near) in [("bw_kbps", same_rate as Same), ("delay_ms", same_delay), ("loss", same_loss)] {
            let same = match (number(&ours[key]), number(&expected[key])) {
                (Some(ours), Some(expected)) => near(ours, expected),
                (_, None) => true,
                (None, Some(_)) => false,
            };
            if !same {
                self.add(&format!("{place}.{key}"), &ours[key], &expected[key]);
            }
        }
    }

    /// Automatic addresses must be unique and in their net's subnet.
    fn chosen_addresses(&mut self, nets: &Value) {
        let mut given = BTreeSet::new();
        let mut chosen = Vec::new();
        for net in items(nets) {
            let mut subnets = BTreeSet::new();
            let mut any_given_elsewhere = false;
            for member in items(&net["members"]) {
                let Some(address) = member["ip"].as_str().and_then(|ip| ip.parse::<Ipv4Addr>().ok()) else { continue };
                let prefix = member["prefix"].as_u64().unwrap_or(PREFIX).min(32);
                // The shift is at most 32.
                let mask = u32::MAX.checked_shl(32 - prefix as u32).unwrap_or(0);
                let is_new = subnets.insert(address.to_bits() & mask);
                if member["ip_is_auto"] == true {
                    chosen.push((address, text(&net["name"])));
                } else {
                    any_given_elsewhere |= is_new && subnets.len() > 1;
                    given.insert(address);
                }
            }
            if subnets.len() > 1 && !any_given_elsewhere {
                self.lines.push(format!("lans.{} has addresses of {} subnets", text(&net["name"]), subnets.len()));
            }
        }
        let mut seen = given;
        for (address, net) in chosen {
            if !seen.insert(address) {
                self.lines.push(format!("{address}, which was chosen for lans.{net}, is in use already"));
            }
        }
    }

    fn events(&mut self, ours: &Value, expected: &Value) {
        let (mut ours, expected) = (event_lines(ours), event_lines(expected));
        for event in expected {
            match ours.iter().position(|other| same_event(other, &event)) {
                Some(at) => {
                    ours.swap_remove(at);
                }
                None => self.lines.push(format!("events lacks: {event}")),
            }
        }
        self.lines.extend(ours.into_iter().map(|event| format!("events has, and is not expected to: {event}")));
    }
}

/// An event: its time, and what identifies it.
#[derive(Clone, Debug)]
struct EventLine {
    t: f64,
    object: String,
    node: String,
    event: String,
    args: String,
    parent: Option<String>,
}

impl fmt::Display for EventLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {} {} {}", self.t, self.object, self.event)?;
        for (before, text) in
            [(" ", &self.args), (" on ", &self.node), (" in ", self.parent.as_ref().unwrap_or(&String::new()))]
        {
            if !text.is_empty() {
                write!(f, "{before}{text}")?;
            }
        }
        Ok(())
    }
}

fn event_lines(events: &Value) -> Vec<EventLine> {
    let line = |event: &Value| EventLine {
        t: number(&event["t"]).unwrap_or(0.0),
        object: text(&event["object"]),
        // "No host in particular" has two notations.
        node: text(&event["node"]).replace('*', ""),
        event: format!("{} {}", text(&event["type"]), text(&event["event"])),
        args: text(&event["args"]).trim().to_owned(),
        parent: event.get("parent").filter(|parent| !parent.is_null()).map(text),
    };
    items(events).iter().map(line).collect()
}

fn same_event(ours: &EventLine, expected: &EventLine) -> bool {
    (ours.t - expected.t).abs() < TOLERANCE
        && (&ours.object, &ours.node, &ours.event, &ours.args)
            == (&expected.object, &expected.node, &expected.event, &expected.args)
        && expected.parent.as_ref().is_none_or(|parent| ours.parent.as_ref() == Some(parent))
}

fn same_rate(ours: f64, expected: f64) -> bool {
    (ours - expected).abs() < TOLERANCE
}

/// Compares a delay that Emulab may have stored in whole milliseconds.
fn same_whole(ours: f64, expected: f64) -> bool {
    same_rate(ours, expected) || (ours < WHOLE_FROM_MS && same_rate(ours.floor(), expected))
}

fn same_half(ours: f64, expected: f64) -> bool {
    same_whole(2.0 * ours, 2.0 * expected)
}

/// Compares the delay of a LAN's leg: half of the LAN's delay, or the leg's own.
fn same_lan_delay(ours: f64, expected: f64) -> bool {
    same_half(ours, expected) || same_whole(ours, expected)
}

fn same_loss(ours: f64, expected: f64) -> bool {
    (ours - expected).abs() < LOSS_TOLERANCE
}

/// A queue with its defaults filled in.
fn queue(queue: &Value) -> BTreeMap<&'static str, String> {
    let or = |key: &str, default: &str| match number(&queue[key]) {
        Some(number) => number.to_string(),
        None => default.to_owned(),
    };
    let kind = queue["type"].as_str().unwrap_or("DropTail").to_owned();
    let in_bytes = queue.as_object().into_iter().flatten().any(|(key, value)| {
        key == "in" && value == "bytes"
            || key.contains("byte") && (value == true || number(value).is_some_and(|it| it != 0.0))
    });
    let mut all = BTreeMap::from([("limit", or("limit", "50")), ("in bytes", in_bytes.to_string())]);
    if kind != "DropTail" {
        all.extend([
            ("minthresh", or("minthresh", "5")),
            ("maxthresh", or("maxthresh", "15")),
            ("linterm", or("linterm", "10")),
            ("weight", or("weight", "0.002")),
        ]);
    }
    all.insert("type", kind);
    all
}

/// Removes braces around the text, if there are any.
fn unbraced(text: &str) -> &str {
    text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(text)
}

fn by_name(list: &Value) -> BTreeMap<String, &Value> {
    items(list).iter().map(|item| (text(&item["name"]), item)).collect()
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64()
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "missing".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
