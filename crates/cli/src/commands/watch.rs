//! `roost watch`: changes in an area as they happen.

use std::collections::BTreeMap;
use std::path::Path;

use roost_api::{Candidate, WatchEvent, WatchQuery};
use roost_wire::{NodeId, Service, ServiceSet, format_node};

use super::{connect, names, place};
use roost_terminal::Output;

use crate::args::WatchArgs;
use crate::failure::{Code, Failure, Outcome};
use crate::signals::wait_for_reader_exit;

/// Prints changes until a signal, or until the daemon ends the watch.
pub(crate) async fn run(args: &WatchArgs, socket: &Path, output: Output) -> Outcome {
    let client = connect(socket).await?;
    let chosen = args.area.choice()?;
    let (services, place) = (services(&args.services), chosen.place.clone());
    let mut changes = client.watch(&WatchQuery { services, area: chosen.area, place, names: true }).await?;
    output.say(format!("Watching {}: + new, ~ moved or changed, - gone; Ctrl-C ends it.", chosen.words()));
    let mut seen = KnownNodes::default();
    let interrupted = tokio::signal::ctrl_c();
    tokio::pin!(interrupted);
    loop {
        tokio::select! {
            change = changes.next() => match change? {
                Some(change) => print(&change, &mut seen, output)?,
                None => return Err(Failure::new(Code::Unreachable, "the daemon has ended the watch: it is leaving")),
            },
            _ = &mut interrupted => return Ok(()),
            () = wait_for_reader_exit() => return Err(Failure::ClosedPipe),
        }
    }
}

pub(super) fn services(named: &[Service]) -> ServiceSet {
    if named.is_empty() { ServiceSet::ALL } else { named.iter().copied().collect() }
}

fn print(change: &WatchEvent, seen: &mut KnownNodes, output: Output) -> Outcome {
    if output.is_json() {
        return Ok(output.json(change)?);
    }
    for candidate in &change.present {
        let Candidate { node, cell, services, name, .. } = candidate;
        let place = place(*cell, candidate.place.as_ref());
        seen.present(*node, name.as_deref(), &place, services).map_or(Ok(()), |line| output.data(&line))?;
    }
    for node in &change.gone {
        let line = seen.gone(*node);
        output.data(&line)?;
    }
    Ok(())
}

/// The most nodes whose last place is remembered; those beyond are always new.
const REMEMBERED: usize = 65_536;

#[derive(Clone)]
struct LastSeen {
    name: Option<String>,
    place: String,
    services: Vec<Service>,
}

#[derive(Default)]
pub(super) struct KnownNodes {
    nodes: BTreeMap<NodeId, LastSeen>,
}

impl KnownNodes {
    /// The line for a node that is there: `+` for a new node, `~` for a node that has moved or changed its offers, none
    /// if only its capacity or addresses changed.
    pub(super) fn present(
        &mut self,
        node: NodeId,
        name: Option<&str>,
        place: &str,
        services: &[Service],
    ) -> Option<String> {
        let before = self.nodes.get(&node).cloned();
        let name = name.map(str::to_owned).or_else(|| before.as_ref()?.name.clone());
        let is = format_node(node, name.as_deref());
        if before.is_some() || self.nodes.len() < REMEMBERED {
            self.nodes.insert(node, LastSeen { name, place: place.to_owned(), services: services.to_vec() });
        }
        match before {
            None => Some(format!("+ {is}  {place:>9}  {}\n", names(services))),
            Some(before) if before.place == place && before.services == services => None,
            Some(before) => {
                let same = before.place == place;
                let place = if same { place.to_owned() } else { format!("{} → {place}", before.place) };
                let offer = names(services);
                let same = before.services == services;
                let offer = if same { offer } else { format!("{} → {offer}", names(&before.services)) };
                Some(format!("~ {is}  {place:>9}  {offer}\n"))
            }
        }
    }

    /// Forgets a node that has left, and returns the line for it.
    pub(super) fn gone(&mut self, node: NodeId) -> String {
        let name = self.nodes.remove(&node).and_then(|last| last.name);
        format!("- {}\n", format_node(node, name.as_deref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(cell: &str, services: &[&str]) -> Candidate {
        let row = serde_json::json!({
            "node": "a".repeat(32), "cell": cell, "services": services, "streams_left": 1,
            "uplink_left_kbps": null, "addresses": [], "record": "1.1"
        });
        serde_json::from_value(row).unwrap()
    }

    #[test]
    fn move_differs_from_arrival() {
        let (mut seen, node) = (KnownNodes::default(), "uav7 (aaaaaaaa)");
        let mut line = |cell, services: &[&str]| {
            let Candidate { node, cell, services, .. } = candidate(cell, services);
            seen.present(node, Some("uav7"), &cell.to_string(), &services)
        };
        assert_eq!(line("1,2", &["video"]), Some(format!("+ {node}        1,2  video\n")));
        assert_eq!(line("1,2", &["video"]), None);
        assert_eq!(line("3,4", &["video"]), Some(format!("~ {node}  1,2 → 3,4  video\n")));
        assert_eq!(line("3,4", &["image"]), Some(format!("~ {node}        3,4  video → image\n")));
    }
}
