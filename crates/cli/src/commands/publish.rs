//! `roost group publish`, and the second half of `roost group revoke`, `roost group rollover` and `roost policy publish`: a
//! signed document is handed to running daemons, which spread it. Then the daemons are asked who does not have it yet.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use roost_api::{Client, DocumentHolder, DocumentRow, Status};
use roost_terminal::{Output, SCHEMA};
use roost_wire::{NodeId, format_node};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::args::HandInArgs;
use crate::failure::{Code, Failure, Outcome};

/// A kind of document, in the local API and in sentences.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DocumentName {
    kind: &'static str,
    noun: &'static str,
    title: &'static str,
    pub(crate) file: &'static str,
}

pub(crate) const LIST: DocumentName =
    DocumentName { kind: "revocations", noun: "list", title: "revocation list", file: "revoked.pem" };

pub(crate) const POLICY: DocumentName =
    DocumentName { kind: "policy", noun: "policy", title: "policy", file: "policy.cbor" };

pub(crate) const TRUST: DocumentName =
    DocumentName { kind: "trust", noun: "document of trust", title: "document of trust", file: "trust.cbor" };

/// The time between two questions to the daemons.
const PAUSE: Duration = Duration::from_millis(250);

/// Longest wait for a daemon, which reads a list of 4 MiB in less than a second.
const ANSWER: Duration = Duration::from_secs(20);

const MAX_NAMES: usize = 10;

/// Hands in the list in a group's folder, and the policy if there is one.
pub(crate) fn run(dir: &Path, args: &HandInArgs, output: Output) -> Outcome {
    let trust = dir.join(TRUST.file);
    if trust.exists() {
        // Daemons that have not heard of the new authority refuse its list.
        hand_in(&TRUST, &trust, args).outcome()?;
    }
    let mut outcome = report(hand_in(&LIST, &dir.join(LIST.file), args), output);
    let policy = dir.join(POLICY.file);
    if policy.exists() {
        outcome = outcome.and(report(hand_in(&POLICY, &policy, args), output));
    }
    outcome
}

fn report(handed: HandIn, output: Output) -> Outcome {
    if output.is_json() {
        let mut answer = json!({ "schema": SCHEMA, "kind": handed.name.kind, "number": handed.number() });
        handed.add_to(&mut answer);
        output.json(&answer)?;
    } else {
        if let Some(number) = handed.number() {
            output.data(&format!("{} {number} is published\n", handed.name.title))?;
        }
        handed.say(output);
    }
    handed.outcome()
}

/// The end of a hand-in: what came of it, and the daemons that did not take the list.
pub(crate) struct HandIn {
    name: DocumentName,
    /// `None` if no daemon took it.
    spread: Option<Spread>,
    /// By socket, or by the list if it cannot be read.
    faults: Vec<(PathBuf, Failure)>,
}

impl HandIn {
    pub(crate) fn number(&self) -> Option<u64> {
        self.spread.as_ref().map(|spread| spread.number)
    }

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
            output.say(format!("{} has not taken the {}: {fault}.", socket.display(), self.name.noun));
        }
    }

    /// The first fault, which gives the exit code.
    pub(crate) fn outcome(self) -> Outcome {
        self.faults.into_iter().next().map_or(Ok(()), |(_, fault)| Err(fault))
    }
}

/// Members that have the document, as far as the daemons that were asked know.
struct Spread {
    name: DocumentName,
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

/// Hands the document in this file to all sockets, and waits until everybody has it, or for the time that `args` give.
pub(crate) fn hand_in(name: &DocumentName, file: &Path, args: &HandInArgs) -> HandIn {
    let failed = |fault| HandIn { name: *name, spread: None, faults: vec![(file.to_owned(), fault)] };
    try_hand_in(*name, file, args).unwrap_or_else(failed)
}

fn try_hand_in(name: DocumentName, file: &Path, args: &HandInArgs) -> Outcome<HandIn> {
    let text = std::fs::read(file).map_err(|error| Failure::file("read", file, &error))?;
    runtime()?.block_on(async {
        let text = Bytes::from(text);
        let (mut number, mut takers, mut faults) = (None, Vec::new(), Vec::new());
        for socket in &args.via {
            match in_time(put(socket, name.kind, text.clone())).await {
                Ok(taken) => {
                    number = number.max(Some(taken));
                    takers.push(socket.clone());
                }
                Err(fault) => faults.push((socket.clone(), fault)),
            }
        }
        let Some(number) = number else { return Ok(HandIn { name, spread: None, faults }) };
        let began = Instant::now();
        loop {
            let spread = ask(name, &takers, number).await;
            if spread.is_everywhere() || began.elapsed() >= args.wait {
                return Ok(HandIn { name, spread: Some(spread), faults });
            }
            tokio::time::sleep(PAUSE).await;
        }
    })
}

fn runtime() -> Outcome<Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::failed(format!("cannot start: {error}")))
}

/// The state of the daemons at these sockets.
pub(crate) fn statuses(sockets: &[PathBuf]) -> Outcome<Vec<(&Path, Status)>> {
    let status = async |socket: &Path| Ok(Client::connect(socket).await?.status().await?);
    runtime()?.block_on(async {
        let mut found = Vec::new();
        for socket in sockets {
            found.push((socket.as_path(), in_time(status(socket)).await?));
        }
        Ok(found)
    })
}

async fn in_time<T>(work: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    let late = |_| Failure::new(Code::TimedOut, format!("the daemon has not answered for {} s", ANSWER.as_secs()));
    tokio::time::timeout(ANSWER, work).await.map_err(late)?
}

async fn put(socket: &Path, kind: &str, text: Bytes) -> Outcome<u64> {
    Ok(Client::connect(socket).await?.put_document(kind, text).await?.number)
}

async fn row_of(socket: &Path, kind: &str) -> Outcome<Option<(NodeId, String, DocumentRow)>> {
    let client = Client::connect(socket).await?;
    let (status, documents) = (client.status().await?, client.documents().await?);
    let row = documents.documents.into_iter().find(|row| row.kind == kind);
    Ok(row.map(|row| (status.node, status.name, row)))
}

/// Asks the daemons; those that do not answer know nothing.
async fn ask(name: DocumentName, sockets: &[PathBuf], number: u64) -> Spread {
    let mut spread = Spread { name, number, hubs: BTreeMap::new(), late: BTreeMap::new() };
    let mut asked = Vec::new();
    for socket in sockets {
        asked.extend(in_time(row_of(socket, name.kind)).await.ok().flatten());
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
        let noun = self.name.noun;
        let nodes: u64 = self.hubs.values().map(|hub| hub.nodes).sum();
        if self.is_everywhere() {
            let (number, hubs) = (self.number, self.hubs.len());
            return output.say(format!("Everybody known has {noun} {number} (hubs: {hubs}, nodes: {nodes})."));
        }
        if self.hubs.is_empty() && self.late.is_empty() {
            return output.say(format!("No hub has said yet that it has {noun} {}.", self.number));
        }
        for (hub, name) in &self.late {
            output.say(format!("Hub {} has an older {noun}.", format_node(*hub, name.as_deref())));
        }
        for hub in self.hubs.values().filter(|hub| hub.is_late(self.number)) {
            output.say(hub.sentence(noun, self.number));
        }
        output.say(format!("They get the {noun} when they connect again; nothing more is to be done."));
    }
}

impl HubSpread {
    fn is_late(&self, number: u64) -> bool {
        self.number < number || self.behind > 0
    }

    fn sentence(&self, noun: &str, number: u64) -> String {
        if self.number < number {
            return format!("Hub {} has {noun} {}.", self.name, self.number);
        }
        let named = self.names.iter().take(MAX_NAMES).cloned().collect::<Vec<_>>().join(", ");
        let more = if self.names.len() > MAX_NAMES { ", …" } else { "" };
        let names = if named.is_empty() { String::new() } else { format!(": {named}{more}") };
        format!("{} of {} nodes of hub {} do not have it yet{names}.", self.behind, self.nodes, self.name)
    }
}
