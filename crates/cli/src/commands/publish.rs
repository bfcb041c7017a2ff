//! `roost group publish`, and the second half of `roost group revoke`: a signed revocation list is handed to running
//! daemons, which spread it. Then the daemons are asked who does not have it yet.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use roost_api::{Client, DocumentHolder, DocumentRow};
use roost_terminal::{Output, SCHEMA};
use roost_wire::{NodeId, format_node};
use serde_json::{Value, json};

use crate::args::HandInArgs;
use crate::failure::{Failure, Outcome};

const KIND: &str = "revocations";

/// The time between two questions to the daemons.
const PAUSE: Duration = Duration::from_millis(250);

const MAX_NAMES: usize = 10;

pub(crate) fn run(dir: &Path, args: &HandInArgs, output: Output) -> Outcome {
    let spread = hand_in(&dir.join("revoked.pem"), args)?;
    if output.is_json() {
        return Ok(output.json(&json!({ "schema": SCHEMA, "number": spread.number, "spread": spread.json() }))?);
    }
    output.data(&format!("revocation list {} is published\n", spread.number))?;
    spread.say(output);
    Ok(())
}

/// Members that have the list, as far as the daemons that were asked know.
#[derive(Default)]
pub(crate) struct Spread {
    pub(crate) number: u64,
    hubs: BTreeMap<NodeId, HubSpread>,
    /// Hubs of which others say that they have an older list.
    late: BTreeMap<NodeId, Option<String>>,
}

#[derive(Default)]
struct HubSpread {
    name: String,
    number: u64,
    nodes: u64,
    behind: u64,
    /// Known of the hubs that were asked.
    names: Vec<String>,
}

/// Hands the list to all sockets, and waits until everybody has it, or for the time that `args` give.
pub(crate) fn hand_in(list: &Path, args: &HandInArgs) -> Outcome<Spread> {
    let text = std::fs::read(list).map_err(|error| Failure::file("read", list, &error))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::failed(format!("cannot start: {error}")))?;
    runtime.block_on(async {
        let mut number = 0;
        for socket in &args.via {
            let taken = Client::connect(socket).await?.put_document(KIND, Bytes::from(text.clone())).await?;
            number = taken.number;
        }
        let began = Instant::now();
        loop {
            let spread = ask(&args.via, number).await?;
            if spread.is_everywhere() || began.elapsed() >= args.wait {
                return Ok(spread);
            }
            tokio::time::sleep(PAUSE).await;
        }
    })
}

async fn ask(sockets: &[PathBuf], number: u64) -> Outcome<Spread> {
    let mut spread = Spread { number, ..Spread::default() };
    let mut asked = Vec::new();
    for socket in sockets {
        let client = Client::connect(socket).await?;
        let (status, documents) = (client.status().await?, client.documents().await?);
        if let Some(row) = documents.documents.into_iter().find(|row| row.kind == KIND) {
            asked.push((status.node, status.name, row));
        }
    }
    asked.iter().for_each(|(.., row)| spread.add_told(row));
    // A hub knows best of itself.
    for (hub, name, row) in asked.iter().filter(|(.., row)| row.nodes.is_some()) {
        let names = row.nodes_behind.iter().map(called).collect();
        let (nodes, behind) = (row.nodes.unwrap_or_default(), row.behind.unwrap_or_default());
        spread.hubs.insert(*hub, HubSpread { name: name.clone(), number: row.number, nodes, behind, names });
    }
    let known: Vec<NodeId> = spread.hubs.keys().copied().collect();
    spread.late.retain(|hub, _| !known.contains(hub));
    Ok(spread)
}

fn called(holder: &DocumentHolder) -> String {
    format_node(holder.node, holder.name.as_deref())
}

impl Spread {
    fn add_told(&mut self, row: &DocumentRow) {
        self.late.extend(row.hubs_behind.iter().map(|hub| (hub.node, hub.name.clone())));
        for told in &row.hubs {
            let hub = self.hubs.entry(told.hub).or_default();
            if hub.number <= told.number {
                let (name, number, nodes, behind) = (told.name.clone(), told.number, told.nodes, told.behind);
                *hub = HubSpread { name, number, nodes, behind, names: Vec::new() };
            }
        }
    }

    fn is_everywhere(&self) -> bool {
        self.late.is_empty() && self.hubs.values().all(|hub| !hub.is_late(self.number))
    }

    pub(crate) fn json(&self) -> Value {
        let hub = |(id, hub): (&NodeId, &HubSpread)| {
            json!({
                "hub": id.to_string(), "name": hub.name, "number": hub.number, "nodes": hub.nodes,
                "behind": hub.behind, "nodes_behind": hub.names,
            })
        };
        json!({
            "everywhere": self.is_everywhere(),
            "hubs": self.hubs.iter().map(hub).collect::<Vec<_>>(),
            "hubs_behind": self.late.keys().map(ToString::to_string).collect::<Vec<_>>(),
        })
    }

    /// Says who has not heard of it yet.
    pub(crate) fn say(&self, output: Output) {
        let nodes: u64 = self.hubs.values().map(|hub| hub.nodes).sum();
        if self.is_everywhere() {
            let reached =
                if self.hubs.is_empty() { String::new() } else { format!(": {} hubs, {nodes} nodes", self.hubs.len()) };
            return output.say(format!("Everybody known has list {}{reached}.", self.number));
        }
        for (hub, name) in &self.late {
            output.say(format!("Hub {} has an older list.", format_node(*hub, name.as_deref())));
        }
        for hub in self.hubs.values().filter(|hub| hub.is_late(self.number)) {
            output.say(hub.sentence(self.number));
        }
        output.say("They get the list when they connect again; nothing more is to be done.");
    }
}

impl HubSpread {
    fn is_late(&self, number: u64) -> bool {
        self.number < number || self.behind > 0
    }

    fn sentence(&self, number: u64) -> String {
        if self.number < number {
            return format!("Hub {} has list {}.", self.name, self.number);
        }
        let named = self.names.iter().take(MAX_NAMES).cloned().collect::<Vec<_>>().join(", ");
        let more = if self.names.len() > MAX_NAMES { ", …" } else { "" };
        let names = if named.is_empty() { String::new() } else { format!(": {named}{more}") };
        format!("{} of {} nodes of hub {} do not have it yet{names}.", self.behind, self.nodes, self.name)
    }
}
