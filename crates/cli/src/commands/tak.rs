//! `roost tak`: a gateway between the overlay and TAK.

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use roost_api::WatchQuery;
use roost_tak::{ContactNews, OwnFiles, Report, ServeError, Setup, TlsFiles, TlsSetup, Totals, serve};
use roost_terminal::{Output, SCHEMA};
use roost_wire::printable;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::watch::services;
use crate::args::TakArgs;
use crate::failure::{Code, Failure, Outcome};
use crate::signals::Signals;

/// Reports that wait for the reader of the output; more are dropped.
const BACKLOG: usize = 1024;
/// The time that the last reports have at the end.
const FLUSH: Duration = Duration::from_secs(1);

/// Serves until a signal, or until the daemon goes.
pub(crate) async fn run(args: &TakArgs, socket: &Path, output: Output) -> Outcome {
    let setup = setup(args)?;
    let mut signals = Signals::catch()?;
    let (reports, mut written) = write_reports(output)?;
    let report = move |report| {
        // A reader that takes nothing misses reports, and the gateway goes on.
        let _ = reports.try_send(report);
    };
    let ended = tokio::select! {
        ended = serve(setup, socket, report) => ended.map_err(failure),
        Ok(ended) = &mut written => return ended,
        () = signals.next() => Ok(()),
    };
    // The reader may take nothing any more.
    let _ = tokio::time::timeout(FLUSH, written).await;
    ended
}

/// Writes reports in a thread of its own, which ends with the sender or the first failure.
fn write_reports(output: Output) -> Outcome<(SyncSender<Report>, oneshot::Receiver<Outcome>)> {
    let (reports, coming) = sync_channel(BACKLOG);
    let (give, written) = oneshot::channel();
    let write = move |coming: Receiver<Report>| coming.into_iter().try_for_each(|report| say(&report, output));
    let thread = std::thread::Builder::new().name("reports".to_owned()).spawn(move || {
        // The command may have ended.
        let _ = give.send(write(coming));
    });
    thread.map_err(|error| Failure::failed(format!("cannot start a thread: {error}")))?;
    Ok((reports, written))
}

fn setup(args: &TakArgs) -> Outcome<Setup> {
    let chosen = args.area.choice()?;
    let needs_tls = args.endpoints.iter().any(|endpoint| endpoint.to_string().starts_with("tls://"));
    let own = args.cert.clone().zip(args.key.clone()).map(|(cert, key)| OwnFiles { cert, key });
    let tls = match args.ca.clone() {
        Some(ca) => {
            let setup = TlsSetup::read(&TlsFiles { ca, own });
            Some(setup.map_err(|error| Failure::failed(error.to_string()))?)
        }
        None if needs_tls => {
            return Err(Failure::usage("tls:// needs --ca FILE: the authority that has signed the server, in PEM"));
        }
        None => None,
    };
    Ok(Setup {
        endpoints: args.endpoints.clone(),
        listen: args.listen.clone(),
        tls,
        types: args.types.clone(),
        video_url: args.video_url.clone(),
        bits_per_second: f64::from(args.rate) * 1e3,
        nodes: WatchQuery { services: services(&args.services), area: chosen.area, place: chosen.place, names: true },
        tracks: args.tracks,
        offer: args.offer,
    })
}

fn failure(error: ServeError) -> Failure {
    match error {
        ServeError::Daemon(error) => error.into(),
        ServeError::Leaving(_) => Failure::new(Code::Unreachable, error.to_string()),
        ServeError::NoDatum | ServeError::CannotListen { .. } | ServeError::Failed(_) => {
            Failure::failed(error.to_string())
        }
    }
}

fn say(report: &Report, output: Output) -> Outcome {
    if output.is_json() {
        return Ok(output.json(&as_json(report))?);
    }
    match report {
        Report::Listening(address) => output.say(format!("Listening at {address}; Ctrl-C ends it.")),
        Report::Connected(name) => output.say(format!("{name} is connected.")),
        Report::Lost { name, reason, pause: Some(pause) } => {
            output.say(format!("{name}: {reason}; the next attempt is in {} s.", pause.as_secs()));
        }
        Report::Lost { name, reason, pause: None } => output.say(format!("{name}: {reason}.")),
        Report::Contact(ContactNews::Came { uid, callsign }) => {
            let name = callsign.as_deref().unwrap_or("-");
            output.data(&format!("+ {}  {}\n", printable(uid), printable(name)))?;
        }
        Report::Contact(ContactNews::Left { uid }) => output.data(&format!("- {}\n", printable(uid)))?,
        Report::Totals(totals) => output.say(sentence(totals)),
    }
    Ok(())
}

fn sentence(totals: &Totals) -> String {
    let Totals { connections, contacts, marks, sent, received, replaced, not_shown, .. } = totals;
    let refused: Vec<String> = totals.refused.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    let refused = if refused.is_empty() { String::new() } else { format!("; not taken: {}", refused.join(", ")) };
    let replaced = if *replaced == 0 { String::new() } else { format!(", {replaced} replaced by newer ones") };
    let left_out = if *not_shown == 0 { String::new() } else { format!(", {not_shown} too many to show") };
    format!(
        "{connections} connections; {marks} marks told in {sent} events ({}{replaced}{left_out}); {contacts} contacts, \
         {received} events received{refused}",
        super::bytes(totals.sent_bytes)
    )
}

fn as_json(report: &Report) -> Value {
    let seconds = |pause: &Option<Duration>| pause.map(|pause| pause.as_secs());
    match report {
        Report::Listening(address) => json!({ "schema": SCHEMA, "event": "listening", "address": address }),
        Report::Connected(name) => json!({ "schema": SCHEMA, "event": "connected", "name": name }),
        Report::Lost { name, reason, pause } => {
            json!({ "schema": SCHEMA, "event": "lost", "name": name, "reason": reason, "retry_s": seconds(pause) })
        }
        Report::Contact(ContactNews::Came { uid, callsign }) => {
            json!({ "schema": SCHEMA, "event": "contact", "uid": uid, "callsign": callsign })
        }
        Report::Contact(ContactNews::Left { uid }) => json!({ "schema": SCHEMA, "event": "contact-left", "uid": uid }),
        Report::Totals(totals) => json!({
            "schema": SCHEMA, "event": "totals", "connections": totals.connections, "contacts": totals.contacts,
            "marks": totals.marks, "sent": totals.sent, "sent_bytes": totals.sent_bytes,
            "replaced": totals.replaced, "not_shown": totals.not_shown, "received": totals.received,
            "records": totals.records, "refused": totals.refused
        }),
    }
}
