//! `roost send`: gives a file to a node with an inbox.

use std::cell::OnceCell;
use std::path::Path;
use std::time::{Duration, Instant};

use roost_api::{Client, OutboxTerms, SendEvent, SendQuery, SendStream};
use roost_services::{SourceError, StoredFile, digest_of};
use roost_terminal::{Output, SCHEMA};
use roost_wire::{NodeId, format_node};
use serde_json::json;

use super::outbox::date;
use super::{bytes, connect, duration};
use crate::args::SendArgs;
use crate::failure::{Code, Failure, Outcome};
use crate::progress::Progress;

/// The time between two reports of progress to a program.
const PAUSE: Duration = Duration::from_secs(1);

/// Reads the file through, offers it, and gives the daemon the chunks that it asks for.
pub(crate) async fn run(args: &SendArgs, socket: &Path, output: Output) -> Outcome {
    let name = name(args)?;
    let client = connect(socket).await?;
    let node = args.node;
    let (length, digest) = read_through(args, output).await?;
    let file = StoredFile::known(&args.file, length, digest).await.map_err(unread)?;
    let addresses = args.address.clone();
    let outbox =
        args.until.map(|until_unix_s| OutboxTerms { until_unix_s, priority: args.priority.into(), wait: args.wait });
    let query = SendQuery { node, addresses, name: name.clone(), bytes: length, digest, timeout: args.timeout, outbox };
    let mut progress = Progress::start(output, format!("asking {node} whether it takes {name}"));
    let began = Instant::now();
    let stream = client.send_file(&query).await?;
    let with_events = args.progress;
    let place = if args.until.is_some() { Place::Outbox(OnceCell::new()) } else { Place::Receiver };
    let sending = Sending { client: &client, file: &file, name: &name, output, with_events, wait: args.wait, place };
    let sent = tokio::select! {
        sent = sending.serve(stream, &mut progress) => sent?,
        _ = tokio::signal::ctrl_c() => {
            return Err(Failure::new(Code::Interrupted, format!("interrupted; {}", sending.remedy())));
        }
    };
    progress.end();
    let Some(sent) = sent else { return Ok(()) };
    let seconds = began.elapsed().as_secs_f64();
    let rate = length.saturating_sub(sent.begun) as f64 * 8.0 / seconds.max(1e-3);
    if output.is_json() {
        let elapsed_ms = seconds * 1e3;
        let report = json!({
            "schema": SCHEMA, "event": "finished", "node": sent.node.map_or_else(|| node.to_string(), |node| node.to_string()),
            "node_name": sent.node_name, "name": name, "bytes": length, "resumed_at": sent.begun, "elapsed_ms": elapsed_ms, "rate_bits_per_second": rate,
        });
        return Ok(output.json(&report)?);
    }
    if output.is_quiet() {
        return Ok(());
    }
    let (size, took) = (bytes(length), duration(seconds * 1e3));
    // An older daemon does not tell the receiver.
    let receiver = sent.node.map_or_else(|| node.to_string(), |node| format_node(node, sent.node_name.as_deref()));
    Ok(output.data(&format!("{receiver} has {name}: {size}, verified, in {took}, {:.1} kbit/s\n", rate / 1e3))?)
}

/// The file's name at the receiver.
fn name(args: &SendArgs) -> Outcome<String> {
    let own = || args.file.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = args.name.clone().or_else(own);
    name.ok_or_else(|| Failure::usage(format!("{} has no name: give one with --name", args.file.display())))
}

async fn read_through(args: &SendArgs, output: Output) -> Outcome<(u64, [u8; 32])> {
    let mut progress = Progress::start(output, format!("reading {}", args.file.display()));
    let total = std::fs::metadata(&args.file).ok().map(|found| found.len());
    progress.known(format!("reading {}", args.file.display()), total, 0);
    let path = args.file.clone();
    let read = tokio::task::spawn_blocking(move || digest_of(&path, |bytes| progress.add(bytes as usize))).await;
    read.map_err(|error| Failure::failed(error.to_string()))?.map_err(unread)
}

fn unread(error: SourceError) -> Failure {
    Failure::failed(error.to_string())
}

struct Sent {
    /// Bytes of the file that the receiver had before.
    begun: u64,
    node: Option<NodeId>,
    node_name: Option<String>,
}

struct Sending<'a> {
    client: &'a Client,
    file: &'a StoredFile,
    name: &'a str,
    output: Output,
    with_events: bool,
    /// A file in the outbox is waited for.
    wait: bool,
    place: Place,
}

/// The place to which the daemon takes the file.
enum Place {
    Receiver,
    /// With the id of the delivery, once the file is there.
    Outbox(OnceCell<String>),
}

impl Sending<'_> {
    /// Sends the chunks that the receiver asks for until it has everything.
    async fn serve(&self, mut stream: SendStream, progress: &mut Progress) -> Outcome<Option<Sent>> {
        let (mut begun, mut told) = (None, Instant::now());
        while let Some(event) = self.next_event(&mut stream).await? {
            match event {
                SendEvent::Read { session, offset, bytes, node, node_name } => {
                    if begun.is_none() {
                        let to = node
                            .map(|node| format!(" to {}", format_node(node, node_name.as_deref())))
                            .unwrap_or_default();
                        progress.known(format!("sending {}{to}", self.name), Some(self.file.length()), offset);
                        self.say_begun(offset);
                    }
                    begun.get_or_insert(offset);
                    let piece = self.file.read(offset, bytes).await.map_err(unread)?;
                    progress.reached(offset + piece.len() as u64);
                    self.client.send_chunk(session, offset, piece).await?;
                }
                SendEvent::Finished { node, node_name } => {
                    return Ok(Some(Sent { begun: begun.unwrap_or(self.file.length()), node, node_name }));
                }
                SendEvent::Queued { id, until_unix_s } => {
                    self.tell_queued(&id, until_unix_s)?;
                    if let Place::Outbox(queued) = &self.place {
                        // The daemon tells the id once.
                        let _ = queued.set(id);
                    }
                    if !self.wait {
                        return Ok(None);
                    }
                }
                SendEvent::Failed { error } => return Err(Failure::api(&error)),
                _ => {}
            }
            if self.with_events && self.output.is_json() && told.elapsed() >= PAUSE {
                told = Instant::now();
                self.output.json(&progress.event())?;
            }
        }
        Err(self.daemon_ended())
    }

    async fn next_event(&self, stream: &mut SendStream) -> Outcome<Option<SendEvent>> {
        let event = stream.next().await;
        // The file is in the outbox: the daemon goes on with it when it runs again.
        let is_queued = matches!(&self.place, Place::Outbox(queued) if queued.get().is_some());
        if is_queued && event.is_err() { Err(self.daemon_ended()) } else { Ok(event?) }
    }

    fn daemon_ended(&self) -> Failure {
        Failure::new(Code::Damaged, format!("the daemon ended during the transfer; {}", self.remedy()))
    }

    /// The remedy for a transfer that ended early.
    fn remedy(&self) -> String {
        let name = self.name;
        match &self.place {
            Place::Receiver => "send the file again to resume".to_owned(),
            Place::Outbox(queued) => match queued.get() {
                Some(id) => format!(
                    "{name} stays in the outbox as {id}: `roost outbox` shows it, `roost outbox cancel {id}` takes it out"
                ),
                None => format!("see `roost outbox`: send {name} again if it is not there"),
            },
        }
    }

    fn tell_queued(&self, id: &str, until_unix_s: u64) -> Outcome {
        if self.output.is_json() {
            let (name, bytes) = (self.name, self.file.length());
            let queued = json!({
                "schema": SCHEMA, "event": "queued", "id": id, "name": name, "bytes": bytes, "until_unix_s": until_unix_s,
            });
            return Ok(self.output.json(&queued)?);
        }
        // The id alone, for scripts.
        self.output.data(&format!("{id}\n"))?;
        self.output.say(format!("{} waits in the outbox until {}", self.name, date(until_unix_s)));
        Ok(())
    }

    fn say_begun(&self, offset: u64) {
        if offset > 0 {
            self.output.say(format!("Going on after the {} that are there", bytes(offset)));
        }
    }
}
