//! The links of radios, which come and go with the distances of hosts.

use std::collections::BTreeMap;

use roost_dashboard::{Change, Rows};
use roost_results::record::LinkStateRecord;
use roost_topology::Topology;
use roost_topology::model::NetIndex;
use serde_json::{Value, json};

use crate::requests::milliseconds;
use crate::wires::differs;

/// The most states that wait for a sample.
const MOST_HELD: usize = 100_000;
const SECOND_MS: u64 = 1000;

/// The key of the link between two members of a radio, without its section: the same in both directions.
pub(crate) fn radio_link_id(topology: &Topology, net: NetIndex, ends: [usize; 2]) -> String {
    let net = &topology.nets[net];
    let host = |member: usize| net.members.get(member).map_or("", |member| topology.hosts[member.host].name.as_str());
    let [first, second] = [ends[0].min(ends[1]), ends[0].max(ends[1])];
    format!("{}/{}/{}", net.name, host(first), host(second))
}

/// The values of a way of a link that is up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct RadioLeg {
    rate_bps: Option<u64>,
    delay_ms: Option<f64>,
    loss: f64,
}

impl RadioLeg {
    fn from_state(state: &LinkStateRecord) -> Self {
        Self { rate_bps: state.rate_bps, delay_ms: state.delay_ms, loss: state.loss.unwrap_or(0.0) }
    }

    fn differs(&self, now: &Self) -> bool {
        let rates = [self.rate_bps, now.rate_bps].map(|rate| rate.map_or(0.0, |rate| rate as f64));
        let delays = [self.delay_ms, now.delay_ms].map(|delay| delay.unwrap_or(0.0));
        [rates, delays, [self.loss, now.loss]].iter().any(|[before, now]| differs(*before, *now))
    }

    fn row(&self, queue: &str, is_up: bool) -> Value {
        let mut row = json!({ "rate_bps": self.rate_bps, "delay_ms": self.delay_ms, "queue": queue, "up": is_up });
        if self.loss > 0.0 {
            row["loss"] = json!((self.loss * 1e4).round() / 1e4);
        }
        row
    }
}

/// Two members of a radio, the first one before the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RadioPair {
    net: NetIndex,
    ends: [usize; 2],
}

/// A change that has no row yet.
#[derive(Clone, Copy, Debug)]
struct DueChange {
    /// The time of the first change that it stands for, and of the last.
    since_ms: u64,
    at_ms: u64,
    /// True if a way came up or went down.
    is_turn: bool,
}

/// The links that are up, with the legs of both directions.
///
/// Records of rates come late, so states wait until a sample that is a second later. Links come and go at their times;
/// of the values there is a row for each pair and second, if they differ enough.
#[derive(Debug, Default)]
pub(crate) struct RadioLinks {
    held: Vec<LinkStateRecord>,
    legs: BTreeMap<RadioPair, [Option<RadioLeg>; 2]>,
}

impl RadioLinks {
    /// Keeps a state for later. A file without samples does not fill the memory.
    pub(crate) fn add(&mut self, state: LinkStateRecord, topology: &Topology) -> Vec<Change> {
        self.held.push(state);
        if self.held.len() < MOST_HELD { Vec::new() } else { self.until(f64::INFINITY, topology) }
    }

    /// The changes up to a time, in its order.
    pub(crate) fn until(&mut self, end: f64, topology: &Topology) -> Vec<Change> {
        let mut due: Vec<LinkStateRecord> = self.held.extract_if(.., |state| state.t <= end).collect();
        due.sort_by(|one, other| one.t.total_cmp(&other.t));
        let mut changes = Vec::new();
        let mut open: BTreeMap<RadioPair, DueChange> = BTreeMap::new();
        for state in &due {
            let Some((pair, way)) = pair(state, topology) else { continue };
            let before = self.legs.get(&pair).and_then(|legs| legs[way]);
            let now = state.up.then(|| RadioLeg::from_state(state));
            let is_turn = before.is_some() != now.is_some();
            if !is_turn && !before.zip(now).is_some_and(|(before, now)| before.differs(&now)) {
                continue;
            }
            let at_ms = milliseconds(state.t);
            let mut next = DueChange { since_ms: at_ms, at_ms, is_turn };
            if let Some(last) = open.remove(&pair) {
                let is_same = last.at_ms == at_ms;
                if !is_same && (last.is_turn || at_ms >= last.since_ms + SECOND_MS) {
                    changes.push(self.change(pair, last.at_ms, topology));
                } else {
                    next = DueChange { since_ms: last.since_ms, is_turn: is_turn || is_same && last.is_turn, ..next };
                }
            }
            self.legs.entry(pair).or_default()[way] = now;
            open.insert(pair, next);
        }
        changes.extend(open.into_iter().map(|(pair, due)| self.change(pair, due.at_ms, topology)));
        changes
    }

    /// The row of a pair as it is now.
    fn change(&mut self, pair: RadioPair, at_ms: u64, topology: &Topology) -> Change {
        let id = radio_link_id(topology, pair.net, pair.ends);
        let key = format!("link/{id}");
        let legs = self.legs.get(&pair).copied().unwrap_or_default();
        // A way that is down shows the values of the other one, which is up.
        let Some(any) = legs[0].or(legs[1]) else {
            self.legs.remove(&pair);
            return Change { at_ms, set: Rows::new(), gone: vec![key] };
        };
        let queue = topology.radios.iter().find(|radio| radio.net == pair.net).map(|radio| &radio.queue);
        let queue = queue.map_or_else(String::new, |queue| {
            format!("{} {}", queue.limit, if queue.in_bytes { "bytes" } else { "packets" })
        });
        let [there, back] = legs.map(|leg| leg.unwrap_or(any).row(&queue, leg.is_some()));
        let back = if there == back { Value::Null } else { back };
        let net = &topology.nets[pair.net];
        let [from, to] = pair.ends.map(|end| format!("host/{}", topology.hosts[net.members[end].host].name));
        let row = json!({ "link": id, "net": net.name, "from": from, "to": to, "there": there, "back": back });
        Change { at_ms, set: Rows::from([(key, row)]), gone: Vec::new() }
    }
}

/// The pair of a state, and the number of its way; `None` if it is of no radio of this network.
fn pair(state: &LinkStateRecord, topology: &Topology) -> Option<(RadioPair, usize)> {
    let net = topology.radios.iter().map(|radio| radio.net).find(|net| topology.nets[*net].name == state.link)?;
    let members = &topology.nets[net].members;
    let member = |name: &str| members.iter().position(|member| topology.hosts[member.host].name == name);
    let (from, to) = (member(&state.from)?, member(&state.to)?);
    Some((RadioPair { net, ends: [from.min(to), from.max(to)] }, usize::from(from > to)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NETWORK: &str = "[[host]]\nname = ['a', 'b']\n[[motion.host]]\nname = ['a', 'b']\nposition = [0, 0]\n\
        [[radio]]\nname = 'r'\nmembers = ['a', 'b']\nfrequency = '2.4GHz'\npower = '20dBm'\nbandwidth = '20MHz'\n\
        rate = '6Mbit'\nrange = '500m'\n";

    fn state(t: f64, from: &str, to: &str, rate_bps: Option<u64>) -> LinkStateRecord {
        let (link, up) = ("r".to_owned(), rate_bps.is_some());
        let (from, to) = (from.to_owned(), to.to_owned());
        LinkStateRecord { t, link, from, to, up, rate_bps, delay_ms: Some(2.0), ..LinkStateRecord::default() }
    }

    #[test]
    fn link_lasts_with_one_way() {
        let topology = roost_topology::file::parse("t", NETWORK).unwrap();
        let mut links = RadioLinks::default();
        let mut changes = |states: &[LinkStateRecord]| {
            states.iter().for_each(|state| assert!(links.add(state.clone(), &topology).is_empty()));
            links.until(f64::INFINITY, &topology)
        };
        let rate = Some(6_000_000);
        let first = changes(&[state(0.0, "b", "a", rate)]);
        assert_eq!(first[0].set["link/r/a/b"]["there"]["up"], json!(false));
        let both = changes(&[state(0.0, "a", "b", rate)]);
        let row = &both[0].set["link/r/a/b"];
        let told = (&row["from"], &row["there"]["rate_bps"], &row["back"]);
        assert_eq!(told, (&json!("host/a"), &json!(6_000_000), &Value::Null));
        assert!(changes(&[state(4.5, "a", "b", None)])[0].gone.is_empty());
        let last = changes(&[state(4.5, "b", "a", None)]);
        assert_eq!((last[0].at_ms, &last[0].gone), (4500, &vec!["link/r/a/b".to_owned()]));
        assert!(changes(&[LinkStateRecord { link: "x".to_owned(), ..state(5.0, "a", "b", rate) }]).is_empty());
    }

    #[test]
    fn values_have_a_row_a_second() {
        let topology = roost_topology::file::parse("t", NETWORK).unwrap();
        let mut links = RadioLinks::default();
        // Ten states a second: of a hundred, five percent more each.
        let growing = (0..100).map(|n| state(f64::from(n) / 10.0, "a", "b", Some((1e6 * 1.06_f64.powi(n)) as u64)));
        let steady = (0..100_u32)
            .map(|n| state(10.0 + f64::from(n) / 10.0, "a", "b", Some(400_000_000 + u64::from(n) * 10_000)));
        let mut rows = Vec::new();
        for state in growing.chain(steady) {
            rows.extend(links.add(state, &topology));
        }
        rows.extend(links.until(f64::INFINITY, &topology));
        assert!((10..=13).contains(&rows.len()), "{}", rows.len());
    }

    #[test]
    fn late_record_does_not_raise_link() {
        let topology = roost_topology::file::parse("t", NETWORK).unwrap();
        let mut links = RadioLinks::default();
        let rate = Some(6_000_000);
        let late = [state(0.0, "a", "b", rate), state(1.8, "a", "b", None), state(1.4, "a", "b", Some(1_000_000))];
        late.iter().for_each(|state| assert!(links.add(state.clone(), &topology).is_empty()));
        assert_eq!(links.until(1.0, &topology).len(), 1);
        let rest = links.until(2.0, &topology);
        assert_eq!(rest.last().map(|last| (last.at_ms, last.gone.len())), Some((1800, 1)));
        assert!(links.legs.is_empty() && links.held.is_empty());
    }
}
