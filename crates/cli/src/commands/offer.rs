//! `roost offer`: offers a service, whose data the standard output of a program is.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use roost_api::{Client, Frame, OfferEvent, OfferRequest, OfferStream};
use roost_terminal::{Output, SCHEMA};
use roost_wire::{Offer, format_node};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::json;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::connect;
use crate::args::OfferArgs;
use crate::failure::{Code, Failure, Outcome};
use crate::signals::Signals;

/// Pieces of a program's output that wait for the daemon.
const BACKLOG: usize = 8;

/// The most bytes of an object that are passed on at once.
const PIECE_BYTES: u64 = 64 * 1024;

/// The longest line that is one datagram, bytes.
const MAX_LINE_BYTES: u64 = 8 * 1024;

/// Offers until a signal, or until the daemon ends the offer.
pub(crate) async fn run(args: &OfferArgs, socket: &Path, output: Output) -> Outcome {
    let offer = args.offer();
    offer.check().map_err(|error| Failure::usage(format!("{}: {error}", offer.service)))?;
    let client = connect(socket).await?;
    let requests = client.offer(&offer).await?;
    let mut signals = Signals::catch()?;
    let args = &Arc::new(args.clone());
    let offering = Offering { args, offer: &offer, client, output };
    tokio::select! {
        ended = offering.serve(requests) => ended,
        () = signals.next() => Ok(()),
    }
}

struct Offering<'a> {
    args: &'a Arc<OfferArgs>,
    offer: &'a Offer,
    client: Client,
    output: Output,
}

/// An object whose requester has all of it is done within this time.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The end of a request: its number, and the sentence of its failure.
type Ended = (u64, Result<(), String>);

impl Offering<'_> {
    async fn serve(&self, mut requests: OfferStream) -> Outcome {
        let (mut serving, mut running) = (JoinSet::<Ended>::new(), BTreeMap::new());
        loop {
            tokio::select! {
                event = requests.next() => match event? {
                    Some(OfferEvent::Offered { service }) => self.say_offered(&service.full_text())?,
                    Some(OfferEvent::Request(request)) => {
                        self.say_request(&request)?;
                        let (number, args, client) = (request.request, Arc::clone(self.args), self.client.clone());
                        let is_stream = self.offer.service.is_stream();
                        let task = async move { (number, answer(&args, is_stream, &client, &request).await) };
                        running.insert(number, serving.spawn(task));
                    }
                    // The program is killed with its task.
                    Some(OfferEvent::Gone { request }) => {
                        if let Some(task) = running.remove(&request) {
                            let grace = if self.offer.service.is_stream() { Duration::ZERO } else { LAST_WORDS };
                            drop(tokio::spawn(async move {
                                tokio::time::sleep(grace).await;
                                task.abort();
                            }));
                        }
                    }
                    Some(_) => {}
                    None => {
                        let leaving = "the daemon has ended the offer: it is leaving";
                        return Err(Failure::new(Code::Unreachable, leaving));
                    }
                },
                Some(ended) = serving.join_next() => {
                    if let Ok((number, ended)) = ended {
                        running.remove(&number);
                        self.say_ended(number, ended)?;
                    }
                }
            }
        }
    }

    fn say_offered(&self, service: &str) -> Outcome {
        if self.output.is_json() {
            return Ok(self.output.json(&json!({ "schema": SCHEMA, "event": "offered", "service": service }))?);
        }
        self.output.say(format!("Offering {service}; Ctrl-C ends it."));
        Ok(())
    }

    fn say_request(&self, request: &OfferRequest) -> Outcome {
        if self.output.is_json() {
            return Ok(self.output.json(&OfferEvent::Request(request.clone()))?);
        }
        let requester = format_node(request.requester, request.requester_name.as_deref());
        let duration = request.duration_ms.map(|millis| format!(" for {}", super::duration(millis as f64)));
        let line = format!("{} {requester} asks for it{}\n", request.request, duration.unwrap_or_default());
        Ok(self.output.data(&line)?)
    }

    fn say_ended(&self, request: u64, ended: Result<(), String>) -> Outcome {
        let error = ended.err();
        if self.output.is_json() {
            let ended = json!({ "schema": SCHEMA, "event": "ended", "request": request, "error": error });
            return Ok(self.output.json(&ended)?);
        }
        let outcome = error.map_or_else(|| "is served".to_owned(), |error| format!("ended: {error}"));
        Ok(self.output.data(&format!("{request} {outcome}\n"))?)
    }
}

/// Runs the program for a request, and gives its output to the daemon.
async fn answer(args: &OfferArgs, is_stream: bool, client: &Client, request: &OfferRequest) -> Result<(), String> {
    let mut program = match Program::start(args, request) {
        Ok(program) => program,
        Err(reason) => {
            // The reason is said here in any case.
            let _ = client.decline(request.request, "its program cannot be started").await;
            return Err(reason);
        }
    };
    let (give, data) = mpsc::channel(BACKLOG);
    let read = async {
        let outcome = match program.child.stdout.take() {
            Some(output) => read_all(args, is_stream, BufReader::new(output), &give).await,
            None => Err("it has no output".to_owned()),
        };
        let outcome = match outcome {
            Ok(()) => program.end().await,
            failed => failed,
        };
        if let Err(reason) = &outcome {
            // The daemon may have had enough already.
            let _ = give.send(Err(io::Error::other(reason.clone()))).await;
        }
        drop(give);
        outcome
    };
    let (read, given) = tokio::join!(read, client.give(request.request, &args.format, data));
    read.and(given.map_err(|error| error.to_string()))
}

/// Passes output on until its end, or until nobody takes it.
async fn read_all(
    args: &OfferArgs,
    is_stream: bool,
    mut output: impl AsyncBufRead + Unpin,
    give: &mpsc::Sender<io::Result<Bytes>>,
) -> Result<(), String> {
    let limit = if !is_stream { PIECE_BYTES } else { u64::from(args.datagram) };
    loop {
        let mut piece = Vec::new();
        let read = if args.lines {
            (&mut output).take(MAX_LINE_BYTES).read_until(b'\n', &mut piece).await
        } else {
            (&mut output).take(limit).read_to_end(&mut piece).await
        };
        read.map_err(|error| format!("its output cannot be read: {error}"))?;
        if piece.is_empty() {
            return Ok(());
        }
        let piece = Bytes::from(piece);
        let piece = if is_stream { Frame::Data(piece).encode() } else { piece };
        if give.send(Ok(piece)).await.is_err() {
            return Err("the daemon takes no more".to_owned());
        }
    }
}

/// A program with all that it starts, killed when this is dropped before its end.
struct Program {
    child: Child,
    group: Option<Pid>,
}

impl Program {
    fn start(args: &OfferArgs, request: &OfferRequest) -> Result<Self, String> {
        let [name, arguments @ ..] = args.program.as_slice() else { return Err("no program is named".to_owned()) };
        let mut command = Command::new(name);
        command.args(arguments).process_group(0).kill_on_drop(true).stdin(Stdio::null()).stdout(Stdio::piped());
        command.env("ROOST_REQUEST", request.request.to_string());
        command.env("ROOST_SERVICE", request.service.full_text());
        command.env("ROOST_REQUESTER", request.requester.to_string());
        command.env("ROOST_REQUESTER_NAME", request.requester_name.as_deref().unwrap_or_default());
        command.env("ROOST_DURATION_MS", request.duration_ms.map(|millis| millis.to_string()).unwrap_or_default());
        command.env("ROOST_WHERE", request.filter.to_string());
        let child = command.spawn().map_err(|error| format!("{name} cannot be started: {error}"))?;
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Ok(Self { child, group })
    }

    /// Waits for the program, which has closed its output.
    async fn end(&mut self) -> Result<(), String> {
        let status = self.child.wait().await.map_err(|error| format!("the program is lost: {error}"))?;
        self.group = None;
        if status.success() { Ok(()) } else { Err(format!("the program failed ({status})")) }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            // The group may be gone already.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}
