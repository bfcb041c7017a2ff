//! `roost group publish`, and the second half of `roost group revoke` and `rollover`: a signed document is handed to
//! running daemons, which spread it. Then the daemons are asked who does not have it yet.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use roost_api::{Client, DocumentHolder, DocumentRow};
use roost_terminal::{Output, SCHEMA};
use roost_wire::{NodeId, format_node};
use serde_json::{Value, json};

use crate::args::HandInArgs;
use crate::failure::{Code, Failure, Outcome};

/// The kinds of documents that are handed in, as in the local API.
pub(crate) const REVOCATIONS: &str = "revocations";
pub(crate) const TRUST: &str = "trust";

/// The time between two questions to the daemons.
const PAUSE: Duration = Duration::from_millis(250);

/// Longest wait for a daemon, which reads a list of 4 MiB in less than a second.
const ANSWER: Duration = Duration::from_secs(20);

const MAX_NAMES: usize = 10;

pub(crate) fn run(dir: &Path, args: &HandInArgs, output: Output) -> Outcome {
    let trust = dir.join("trust.cbor");
    if trust.exists() {
        // Who has not heard of the new authority refuses its list.
        hand_in(TRUST, &trust, args).outcome()?;
    }
    let handed = hand_in(REVOCATIONS, &dir.join("revoked.pem"), args);
    if output.is_json() {
        let number = handed.spread.as_ref().map(|spread| spread.number);
        let mut answer = json!({ "schema": SCHEMA, "number": number });
        handed.add_to(&mut answer);
        output.json(&answer)?;
    } else {
        if let Some(spread) = &handed.spread {
            output.data(&format!("revocation list {} is published\n", spread.number))?;
        }
        handed.say(output);
    }
    handed.outcome()
}

/// The end of a hand-in: what came of it, and the daemons that did not take the list.
pub(crate) struct HandIn {
    /// `None` if no daemon took it.
    spread: Option<Spread>,
    /// By socket, or by the list if it cannot be read.
    faults: Vec<(PathBuf, Failure)>,
}

impl HandIn {
    pub(crate) fn add_to(&self, answer: &mut Value) {
        if let Some(spread) = &self.spread {
            answer["spread"] = spread.json();
        }
        let fault = |(path, fault): &(PathBuf, Failure)| json!({ "via": path, "error": fault.to_string() });
        answer["faults"] = self.faults.iter().map(fault).collect();
    }

    pub(crate) fn say(&self, output: Output) {
        if let Some(spread) = &self.spread {
            spread.say(output);
        }
        // The first one is the end of the command.
        for (socket, fault) in self.faults.iter().skip(1) {
            output.say(format!("{} has not taken the list: {fault}.", socket.display()));
        }
    }

    /// The first fault, which gives the exit code.
    pub(crate) fn outcome(self) -> Outcome {
        self.faults.into_iter().next().map_or(Ok(()), |(_, fault)| Err(fault))
    }
}

/// Members that have the list, as far as the daemons that were asked know.
#[derive(Default)]
struct Spread {
    kind: &'static str,
    number: u64,
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
pub(crate) fn hand_in(kind: &'static str, document: &Path, args: &HandInArgs) -> HandIn {
    try_hand_in(kind, document, args)
        .unwrap_or_else(|fault| HandIn { spread: None, faults: vec![(document.to_owned(), fault)] })
}

fn try_hand_in(kind: &'static str, document: &Path, args: &HandInArgs) -> Outcome<HandIn> {
    let text = std::fs::read(document).map_err(|error| Failure::file("read", document, &error))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::failed(format!("cannot start: {error}")))?;
    runtime.block_on(async {
        let text = Bytes::from(text);
        let (mut number, mut takers, mut faults) = (None, Vec::new(), Vec::new());
        for socket in &args.via {
            match in_time(put(kind, socket, text.clone())).await {
                Ok(taken) => {
                    number = number.max(Some(taken));
                    takers.push(socket.clone());
                }
                Err(fault) => faults.push((socket.clone(), fault)),
            }
        }
        let Some(number) = number else { return Ok(HandIn { spread: None, faults }) };
        let began = Instant::now();
        loop {
            let spread = ask(kind, &takers, number).await;
            if spread.is_everywhere() || began.elapsed() >= args.wait {
                return Ok(HandIn { spread: Some(spread), faults });
            }
            tokio::time::sleep(PAUSE).await;
        }
    })
}

async fn in_time<T>(work: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    let late = |_| Failure::new(Code::TimedOut, format!("the daemon has not answered for {} s", ANSWER.as_secs()));
    tokio::time::timeout(ANSWER, work).await.map_err(late)?
}

async fn put(kind: &str, socket: &Path, text: Bytes) -> Outcome<u64> {
    Ok(Client::connect(socket).await?.put_document(kind, text).await?.number)
}

async fn row_of(kind: &str, socket: &Path) -> Outcome<Option<(NodeId, String, DocumentRow)>> {
    let client = Client::connect(socket).await?;
    let (status, documents) = (client.status().await?, client.documents().await?);
    let row = documents.documents.into_iter().find(|row| row.kind == kind);
    Ok(row.map(|row| (status.node, status.name, row)))
}

/// Asks the daemons; those that do not answer know nothing.
async fn ask(kind: &'static str, sockets: &[PathBuf], number: u64) -> Spread {
    let mut spread = Spread { kind, number, ..Spread::default() };
    let mut asked = Vec::new();
    for socket in sockets {
        asked.extend(in_time(row_of(kind, socket)).await.ok().flatten());
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
    spread
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

    fn noun(&self) -> &'static str {
        if self.kind == REVOCATIONS { "list" } else { "document" }
    }

    fn is_everywhere(&self) -> bool {
        !self.hubs.is_empty() && self.late.is_empty() && self.hubs.values().all(|hub| !hub.is_late(self.number))
    }

    fn json(&self) -> Value {
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
    fn say(&self, output: Output) {
        let nodes: u64 = self.hubs.values().map(|hub| hub.nodes).sum();
        if self.is_everywhere() {
            let (number, hubs) = (self.number, self.hubs.len());
            return output.say(format!("Everybody known has {} {number} (hubs: {hubs}, nodes: {nodes}).", self.noun()));
        }
        if self.hubs.is_empty() && self.late.is_empty() {
            return output.say(format!("No hub has said yet that it has {} {}.", self.noun(), self.number));
        }
        for (hub, name) in &self.late {
            output.say(format!("Hub {} has an older {}.", format_node(*hub, name.as_deref()), self.noun()));
        }
        for hub in self.hubs.values().filter(|hub| hub.is_late(self.number)) {
            output.say(hub.sentence(self.number, self.noun()));
        }
        output.say(format!("They get the {} when they connect again; nothing more is to be done.", self.noun()));
    }
}

impl HubSpread {
    fn is_late(&self, number: u64) -> bool {
        self.number < number || self.behind > 0
    }

    fn sentence(&self, number: u64, noun: &str) -> String {
        if self.number < number {
            return format!("Hub {} has {noun} {}.", self.name, self.number);
        }
        let named = self.names.iter().take(MAX_NAMES).cloned().collect::<Vec<_>>().join(", ");
        let more = if self.names.len() > MAX_NAMES { ", …" } else { "" };
        let names = if named.is_empty() { String::new() } else { format!(": {named}{more}") };
        format!("{} of {} nodes of hub {} do not have it yet{names}.", self.behind, self.nodes, self.name)
    }
}
