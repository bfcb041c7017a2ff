//! `roost offer`: offers a service, whose data the standard output of a program is.

mod answer;
mod program;
mod shared;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use roost_api::{Client, OfferEvent, OfferRequest, OfferStream};
use roost_terminal::{Output, SCHEMA};
use roost_wire::format_node;
use serde_json::json;
use tokio::task::JoinSet;

use self::answer::answer;
use self::shared::SharedProgram;
use super::connect;
use crate::args::OfferArgs;
use crate::failure::{Code, Failure, Outcome};
use crate::signals::Signals;

/// Offers until a signal, or until the daemon ends the offer.
pub(crate) async fn run(args: &OfferArgs, socket: &Path, output: Output) -> Outcome {
    let offer = args.offer();
    offer.check().map_err(|error| Failure::usage(format!("{}: {error}", offer.service)))?;
    if args.shared && !offer.service.is_stream() {
        return Err(Failure::usage(format!("{} is no stream: only a stream has one program for all", offer.service)));
    }
    let client = connect(socket).await?;
    let requests = client.offer(&offer).await?;
    let mut signals = Signals::catch()?;
    let args = &Arc::new(args.clone());
    let offering = Offering { args, client, output };
    tokio::select! {
        ended = offering.serve(requests) => ended,
        () = signals.next() => Ok(()),
    }
}

struct Offering<'a> {
    args: &'a Arc<OfferArgs>,
    client: Client,
    output: Output,
}

/// A program whose requester has enough has ended within this time, as the daemon says so.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The end of a request: its number, and the sentence of its failure.
type Ended = (u64, Result<(), String>);

impl Offering<'_> {
    async fn serve(&self, mut requests: OfferStream) -> Outcome {
        let (mut serving, mut running) = (JoinSet::<Ended>::new(), BTreeMap::new());
        let shared = SharedProgram::default();
        loop {
            tokio::select! {
                event = requests.next() => match event? {
                    Some(OfferEvent::Offered { service }) => self.say_offered(&service.full_text())?,
                    Some(OfferEvent::Request(request)) => {
                        self.say_request(&request)?;
                        let (number, args, client) = (request.request, Arc::clone(self.args), self.client.clone());
                        let shared = shared.clone();
                        let task = async move {
                            let ended = match args.shared {
                                true => shared.answer(&args, &client, &request).await,
                                false => answer(&args, &client, &request).await,
                            };
                            (number, ended)
                        };
                        running.insert(number, serving.spawn(task));
                    }
                    // The program is killed with its task.
                    Some(OfferEvent::Gone { request }) => {
                        if let Some(task) = running.remove(&request) {
                            drop(tokio::spawn(async move {
                                tokio::time::sleep(LAST_WORDS).await;
                                task.abort();
                            }));
                        }
                    }
                    Some(_) => {}
                    None => {
                        let leaving = "the daemon has ended the offer: it is leaving, or its settings offer the service by now";
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
