//! `roost request`: requests a service, receives its data, and prints a summary.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::OnceLock;

use bytes::Bytes;
use roost_api::{
    Client, ClientError, Code as ErrorCode, Frame, LookupQuery, PlacedRequest, RequestEvent, RequestStream,
    TransferSummary,
};
use roost_services::{Finished, SinkSpec, SinkState, TrackFormat};
use roost_wire::messages::ServiceRequest;
use roost_wire::{Form, Service};

use super::output_writer::OutputWriter;
use super::summary::{PartialTransfer, report};
use super::{connect, for_shell, where_flags};
use roost_terminal::Output;

use crate::args::{AreaChoice, OutputFormat, RequestArgs, merged};
use crate::failure::{Code, Failure, Outcome};
use crate::progress::Progress;
use crate::signals::{Signals, wait_for_reader_exit};

/// The sentence for a stream that has ended well and empty.
const EMPTY: &str = "the stream has ended without data: check that its provider's source sends data";

/// The sentence for data of which nothing could be written.
const UNUSABLE: &str = "nothing of what came could be used, so nothing was written: see what its provider sends, for a \
track with --format raw";

/// Requests and receives until the transfer is over.
pub(crate) async fn run(args: &RequestArgs, socket: &Path, output: Output) -> Outcome {
    suits_output(args.service, args.receive.output.as_ref(), std::io::stdout().is_terminal())?;
    if args.receive.sdp.is_some() && !matches!(args.receive.output, Some(SinkSpec::Rtp(_))) {
        return Err(Failure::usage("--sdp tells players of RTP: send it to one with -o rtp://HOST:PORT"));
    }
    let client = connect(socket).await?;
    let chosen = args.area.choice()?;
    let service = with_form(args, &chosen, &client).await?;
    let args = &RequestArgs { service, ..args.clone() };
    receive(args, PreparedRequest { client, chosen, body: None }, output).await
}

/// The daemon that is asked, for a provider in this area; a call has a body.
pub(super) struct PreparedRequest {
    pub(super) client: Client,
    pub(super) chosen: AreaChoice,
    pub(super) body: Option<Bytes>,
}

/// Puts a request, and receives what it brings. The failure names another form of the service that is offered there.
pub(super) async fn receive(args: &RequestArgs, prepared: PreparedRequest, output: Output) -> Outcome {
    let (client, chosen) = (prepared.client.clone(), prepared.chosen.clone());
    let Err(failure) = transfer(args, prepared, output).await else { return Ok(()) };
    let is_own = matches!(args.service.base(), Service::Named(_));
    if !is_own || args.provider.is_some() || failure.exit_code() != Code::NotFound as u8 {
        return Err(failure);
    }
    match offered_form(args, &chosen, &client).await {
        Ok(Some(form)) if form != args.service.form() => Err(other_form(args, form, &chosen)),
        // The failure of the request says more than that of a second look.
        _ => Err(failure),
    }
}

fn other_form(args: &RequestArgs, form: Form, chosen: &AreaChoice) -> Failure {
    let (verb, form) = match form {
        Form::Call => ("call", "a call"),
        Form::Stream => ("request", "a stream"),
        Form::Object | Form::Any => ("request", "an object"),
    };
    let service = args.service;
    let flags = [chosen.flags.clone(), where_flags(&merged(&args.filter)), params_flag(args)].concat();
    let message = format!("{service} {} is {form}: ask for it by `roost {verb} {service} {flags}`", chosen.words());
    Failure::of_kind(ErrorCode::NotFound, message)
}

/// The flag of the parameters, as a shell reads it.
fn params_flag(args: &RequestArgs) -> String {
    args.params.as_ref().map(|params| format!(" --params {}", for_shell(params))).unwrap_or_default()
}

async fn transfer(args: &RequestArgs, prepared: PreparedRequest, output: Output) -> Outcome {
    let PreparedRequest { client, chosen, body } = prepared;
    let asking = match args.provider {
        Some(provider) => format!("asking {provider} for {}", args.service),
        None => format!("asking for {} {}", args.service, chosen.words()),
    };
    let format = match args.receive.format {
        OutputFormat::Json => TrackFormat::JsonLines,
        OutputFormat::Full => TrackFormat::Full,
        OutputFormat::Raw => TrackFormat::Raw,
    };
    let keeping = OutputWriter::begin(args.service, args.receive.output.as_ref(), format, output).await?;
    let keeping = keeping.telling(args.receive.sdp.as_deref());
    let progress = Progress::start(output, asking);
    let place = chosen.place.clone();
    let request = args.service_request(chosen.area);
    let stream = match body {
        Some(body) => client.call_at(&PlacedRequest { request, place }, body).await?,
        // A program that is called gives something else each time.
        None if request.service.is_call() => client.request_at(&PlacedRequest { request, place }).await?,
        None => {
            let request = ServiceRequest { resume: keeping.resume(), ..request };
            client.request_at(&PlacedRequest { request, place }).await?
        }
    };
    let endless = OnceLock::new();
    let mut transfer = Transfer { args, output, progress, keeping, early: PartialTransfer::begin(), endless: &endless };
    let ended = tokio::select! {
        biased;
        ended = transfer.receive(stream) => ended,
        interrupted = broken_off(&client, &endless) => interrupted.map(|()| TransferEnd::Interrupted),
        () = wait_for_reader_exit(), if args.receive.output == Some(SinkSpec::Stdout) => Ok(TransferEnd::Reader),
    };
    transfer.progress.end();
    let closed = transfer.keeping.break_off().await;
    transfer.conclude(&chosen, ended.and_then(|ended| closed.map(|()| ended))?)
}

/// The requested service, with the form of an offer if the command line does not say it.
async fn with_form(args: &RequestArgs, chosen: &AreaChoice, client: &Client) -> Outcome<Service> {
    let service = args.service;
    if service.form() != Form::Any {
        return Ok(service);
    }
    let offered = offered_form(args, chosen, client).await?;
    offered.map(|form| service.with_form(form)).ok_or_else(|| {
        let message =
            format!("nobody offers {service} {}; say its form if you know it: {service}:stream", chosen.words());
        Failure::of_kind(ErrorCode::NotFound, message)
    })
}

/// The form of the service that the best provider there offers.
async fn offered_form(args: &RequestArgs, chosen: &AreaChoice, client: &Client) -> Outcome<Option<Form>> {
    let service = args.service.with_form(Form::Any);
    let query = LookupQuery {
        count: 1,
        timeout: args.receive.timeout,
        filter: merged(&args.filter),
        place: chosen.place.clone(),
        ..LookupQuery::new(service, chosen.area)
    };
    let found = client.lookup(&query).await?;
    let mut offers = found.candidates.iter().flat_map(|candidate| &candidate.offers);
    Ok(offers.find(|offer| offer.service.satisfies(&service)).map(|offer| offer.service.form()))
}

/// Waits for a signal. For a stream without an end the first signal makes an end, and a second one is waited for.
async fn broken_off(client: &Client, endless: &OnceLock<u64>) -> Outcome {
    let mut signals = Signals::catch()?;
    signals.next().await;
    let Some(request) = endless.get() else { return Ok(()) };
    let ending = async {
        match client.end_request(*request).await {
            Err(ClientError::Api(error)) if error.code == ErrorCode::NotFound => {}
            Err(_) => return,
            Ok(()) => {}
        }
        // The summary of the stream follows, also if it has ended by itself.
        std::future::pending().await
    };
    tokio::select! {
        () = ending => {}
        () = signals.next() => {}
    }
    Ok(())
}

/// A terminal cannot show pictures and video.
fn suits_output(service: Service, output: Option<&SinkSpec>, terminal: bool) -> Outcome {
    let binary = matches!(service, Service::Video | Service::Image);
    if !(binary && terminal && matches!(output, Some(SinkSpec::Stdout))) {
        return Ok(());
    }
    let (file, reader) = if service == Service::Image { ("picture.jpg", "display -") } else { ("clip.ts", "ffplay -") };
    let message =
        format!("{service} is no text for a terminal: write it to a file (-o {file}) or a pipe (-o - | {reader})");
    Err(Failure::usage(message))
}

struct Transfer<'a> {
    args: &'a RequestArgs,
    output: Output,
    progress: Progress,
    keeping: OutputWriter<'a>,
    early: PartialTransfer,
    /// The number of a request whose stream only its requester ends.
    endless: &'a OnceLock<u64>,
}

enum TransferEnd {
    /// All data came.
    Finished(TransferSummary),
    /// Some data did not come.
    Failed(Failure, Option<TransferSummary>),
    /// The reader of the output has gone.
    Reader,
    /// A signal has ended the transfer early.
    Interrupted,
}

impl Transfer<'_> {
    async fn receive(&mut self, mut stream: RequestStream) -> Outcome<TransferEnd> {
        while let Some(frame) = stream.next().await? {
            let end = match frame {
                Frame::Data(data) => self.write(&data).await?,
                Frame::Event(event) => self.handle_event(event).await?,
            };
            if let Some(end) = end {
                return Ok(end);
            }
        }
        self.keeping.break_off().await?;
        let broken = "the daemon went away in mid-transfer; what came is incomplete";
        Ok(TransferEnd::Failed(Failure::new(Code::Damaged, broken), None))
    }

    async fn write(&mut self, data: &Bytes) -> Outcome<Option<TransferEnd>> {
        self.progress.add(data.len());
        self.early.add(data.len());
        let state = self.keeping.write(data).await?;
        Ok((state == SinkState::Closed).then_some(TransferEnd::Reader))
    }

    /// Returns the end of the transfer, if the event is the last.
    async fn handle_event(&mut self, event: RequestEvent) -> Outcome<Option<TransferEnd>> {
        match event {
            RequestEvent::Accepted(accepted) => {
                self.progress.accepted(&accepted);
                self.early.accepted(&accepted);
                if let Some(request) = accepted.request.filter(|_| self.args.is_endless()) {
                    self.endless.get_or_init(|| request);
                }
                self.keeping.open(&accepted).await?;
            }
            RequestEvent::Progress(_) => {
                self.progress.look();
                self.keeping.flush_pending().await?;
                if self.args.receive.progress && self.output.is_json() {
                    self.output.json(&self.progress.event())?;
                }
            }
            RequestEvent::Finished(summary) => {
                match summary.digest_ok {
                    Some(false) => self.keeping.break_off().await?,
                    Some(true) => {
                        self.keeping.mark_verified();
                        self.keeping.finish().await?;
                    }
                    None => self.keeping.finish().await?,
                }
                return Ok(Some(TransferEnd::Finished(summary)));
            }
            RequestEvent::Failed { error, summary } => {
                self.keeping.break_off().await?;
                return Ok(Some(TransferEnd::Failed(Failure::api(&error), summary)));
            }
            _ => {}
        }
        Ok(None)
    }

    /// Reports the data that has come, and fails if that is not all.
    fn conclude(&self, chosen: &AreaChoice, ended: TransferEnd) -> Outcome {
        let Self { args, output, keeping, .. } = self;
        match ended {
            TransferEnd::Reader => self.early.report(args, *output),
            TransferEnd::Interrupted => {
                let kept = keeping.part().map(|path| format!(", and what came is kept as {}", path.display()));
                let message = format!("interrupted; the transfer is incomplete{}", kept.unwrap_or_default());
                Err(Failure::new(Code::Interrupted, message))
            }
            TransferEnd::Finished(mut summary) => {
                if keeping.kept.as_ref().is_some_and(|kept| kept.verified) {
                    summary.digest_ok = Some(true);
                }
                report(args, &summary, keeping, *output)?;
                suggest(args, chosen, *output);
                if args.service.is_stream() && summary.bytes == 0 {
                    return Err(Failure::new(Code::Refused, EMPTY));
                }
                verdict(summary.digest_ok, keeping.kept.as_ref().map(|kept| &kept.finished))
            }
            TransferEnd::Failed(failure, summary) => {
                if let Some(summary) = summary {
                    report(args, &summary, keeping, *output)?;
                }
                Err(failure)
            }
        }
    }
}

fn verdict(digest_ok: Option<bool>, finished: Option<&Finished>) -> Outcome {
    if digest_ok == Some(false) {
        let damaged = "what came is not what the provider sent (its SHA-256 differs); ask again";
        return Err(Failure::new(Code::Damaged, damaged));
    }
    match finished {
        Some(Finished::KeptPart { path, .. }) => {
            let message = format!("what came is incomplete and kept as {}; ask again", path.display());
            Err(Failure::new(Code::Damaged, message))
        }
        Some(Finished::Discarded) => Err(Failure::new(Code::Damaged, UNUSABLE)),
        _ => Ok(()),
    }
}

fn suggest(args: &RequestArgs, chosen: &AreaChoice, output: Output) {
    if args.receive.output.is_some() || output.is_json() {
        return;
    }
    let target = match args.service.base() {
        Service::Video => "clip.ts",
        Service::Track => "track.jsonl",
        Service::Image => "picture.jpg",
        Service::Sensor => "reading.json",
        Service::Named(_) => "data",
    };
    let place = args.provider.map_or_else(|| chosen.flags.clone(), |provider| format!("--from {provider}"));
    let verb = if args.service.is_call() { "call" } else { "request" };
    let filter = where_flags(&merged(&args.filter));
    let params = params_flag(args);
    output.say(format!("Keep it with: roost {verb} {} {place}{filter}{params} -o {target}", args.service));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_part_is_failure() {
        let part = Finished::KeptPart { path: "site.tif.part".into(), bytes: 50 };
        let written = Finished::Written { bytes: 50, path: Some("site.tif".into()) };
        let code = |digest_ok, finished| verdict(digest_ok, finished).map_err(|failure| failure.exit_code());
        assert_eq!(code(None, Some(&part)), Err(7));
        assert_eq!(code(Some(false), Some(&written)), Err(7));
        assert_eq!(code(Some(true), Some(&written)), Ok(()));
        assert_eq!(code(None, Some(&Finished::Discarded)), Err(7));
        assert_eq!(code(None, None), Ok(()));
    }

    #[test]
    fn binary_output_to_terminal_is_rejected() {
        for (service, terminal, fits) in [
            (Service::Video, true, false),
            (Service::Image, true, false),
            (Service::Image, false, true),
            (Service::Track, true, true),
            (Service::Sensor, true, true),
        ] {
            assert_eq!(suits_output(service, Some(&SinkSpec::Stdout), terminal).is_ok(), fits, "{service} {terminal}");
        }
        assert!(suits_output(Service::Video, None, true).is_ok());
    }
}
