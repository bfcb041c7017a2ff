//! The links of radios, which come and go with the distances of hosts.

use std::collections::BTreeMap;

use roost_dashboard::{Change, Rows};
use roost_results::record::LinkStateRecord;
use roost_topology::Topology;
use roost_topology::model::NetIndex;
use serde_json::{Value, json};

use crate::requests::milliseconds;

/// The key of the link between two members of a radio, without its section: the same in both directions.
pub(crate) fn radio_link_id(topology: &Topology, net: NetIndex, ends: [usize; 2]) -> String {
    let net = &topology.nets[net];
    let host = |member: usize| net.members.get(member).map_or("", |member| topology.hosts[member.host].name.as_str());
    let [first, second] = [ends[0].min(ends[1]), ends[0].max(ends[1])];
    format!("{}/{}/{}", net.name, host(first), host(second))
}

/// The links that are up, with the legs of both directions.
#[derive(Debug, Default)]
pub(crate) struct RadioLinks {
    legs: BTreeMap<String, [Option<Value>; 2]>,
}

impl RadioLinks {
    /// The change that a record tells; `None` if it is of no radio of this network.
    pub(crate) fn change(&mut self, state: &LinkStateRecord, topology: &Topology) -> Option<Change> {
        let radio = topology.radios.iter().find(|radio| topology.nets[radio.net].name == state.link)?;
        let net = &topology.nets[radio.net];
        let member = |name: &str| net.members.iter().position(|member| topology.hosts[member.host].name == name);
        let (from, to) = (member(&state.from)?, member(&state.to)?);
        let id = radio_link_id(topology, radio.net, [from, to]);
        let queue = format!("{} {}", radio.queue.limit, if radio.queue.in_bytes { "bytes" } else { "packets" });
        let legs = self.legs.entry(id.clone()).or_default();
        legs[usize::from(from > to)] = state.up.then(|| leg(state, &queue));
        let (key, at_ms) = (format!("link/{id}"), milliseconds(state.t));
        if legs.iter().all(Option::is_none) {
            self.legs.remove(&id);
            return Some(Change { at_ms, set: Rows::new(), gone: vec![key] });
        }
        // A way that is down shows the values of the other one, which is up.
        let silent = |other: &Option<Value>| {
            let mut leg = other.clone().unwrap_or_default();
            leg["up"] = json!(false);
            leg
        };
        let [there, back] = [0, 1].map(|way| legs[way].clone().unwrap_or_else(|| silent(&legs[1 - way])));
        let back = if there == back { Value::Null } else { back };
        let [first, second] = if from < to { [&state.from, &state.to] } else { [&state.to, &state.from] };
        let row = json!({
            "link": id, "net": net.name, "from": format!("host/{first}"), "to": format!("host/{second}"),
            "there": there, "back": back,
        });
        Some(Change { at_ms, set: Rows::from([(key, row)]), gone: Vec::new() })
    }
}

fn leg(state: &LinkStateRecord, queue: &str) -> Value {
    let mut row = json!({ "rate_bps": state.rate_bps, "delay_ms": state.delay_ms, "queue": queue, "up": true });
    if let Some(loss) = state.loss.filter(|loss| *loss > 0.0) {
        row["loss"] = json!((loss * 1e4).round() / 1e4);
    }
    row
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
        let mut change = |state: LinkStateRecord| links.change(&state, &topology).unwrap();
        let first = change(state(0.0, "b", "a", Some(6_000_000)));
        assert_eq!(first.set["link/r/a/b"]["there"]["up"], json!(false));
        let both = change(state(0.0, "a", "b", Some(6_000_000)));
        let row = &both.set["link/r/a/b"];
        assert_eq!(
            (&row["from"], &row["there"]["rate_bps"], &row["back"]),
            (&json!("host/a"), &json!(6_000_000), &Value::Null)
        );
        assert!(change(state(4.5, "a", "b", None)).gone.is_empty());
        let last = change(state(4.5, "b", "a", None));
        assert_eq!((last.at_ms, last.gone), (4500, vec!["link/r/a/b".to_owned()]));
        assert!(
            links.change(&LinkStateRecord { link: "x".to_owned(), ..state(1.0, "a", "b", None) }, &topology).is_none()
        );
    }
}
