//! The end of a request in words: the data that came, its way, and its destination.

use std::time::Instant;

use roost_api::{Accepted, TransferSummary};
use roost_services::{Finished, SinkSpec};
use roost_terminal::{Output, SCHEMA};
use roost_wire::format_node;
use serde::Serialize;

use super::output_writer::{OutputWriter, WrittenOutput};
use super::{bytes, duration, place};
use crate::args::{Reflect, RequestArgs};
use crate::failure::Outcome;

/// The line for a subscription that is not reflected.
const OWN_COPY: &str =
    "copy        a stream of its own: super nodes could not reflect it, so its provider sends one more copy";

#[derive(Serialize)]
struct RequestReport<'a> {
    schema: u32,
    service: String,
    output: Option<String>,
    rate_bits_per_second: f64,
    /// Bytes of an object that were there before it went on.
    #[serde(skip_serializing_if = "Option::is_none")]
    resumed_at: Option<u64>,
    summary: &'a TransferSummary,
}

/// Prints the summary: on stdout, unless the data went there.
pub(super) fn report(
    args: &RequestArgs,
    summary: &TransferSummary,
    keeping: &OutputWriter<'_>,
    output: Output,
) -> Outcome {
    let data_on_stdout = args.receive.output == Some(SinkSpec::Stdout);
    if output.is_json() {
        let report = RequestReport {
            schema: SCHEMA,
            service: args.service.to_string(),
            output: args.receive.output.as_ref().map(ToString::to_string),
            rate_bits_per_second: rate(args, summary),
            resumed_at: keeping.resumed_at,
            summary,
        };
        return Ok(output.json(&report)?);
    }
    if output.is_quiet() {
        return Ok(());
    }
    let text = describe(args, summary, keeping);
    if data_on_stdout {
        output.say(text.trim_end());
        return Ok(());
    }
    Ok(output.data(&text)?)
}

fn describe(args: &RequestArgs, summary: &TransferSummary, keeping: &OutputWriter<'_>) -> String {
    let way = match (summary.reflected, summary.relayed) {
        (true, _) => "reflected by super nodes".to_owned(),
        (false, true) => format!("through the hub over {}", summary.transport),
        (false, false) => format!("directly over {}", summary.transport),
    };
    let digest = match summary.digest_ok {
        Some(true) => "ok",
        Some(false) => "WRONG",
        None => "cannot be told, as something is missing",
    };
    let mut lines = vec![
        format!(
            "provider    {} at {}",
            format_node(summary.provider, summary.provider_name.as_deref()),
            place(summary.cell, summary.place.as_deref())
        ),
        format!("came        {way}"),
    ];
    if args.reflect == Reflect::Always && !summary.reflected {
        lines.push(OWN_COPY.to_owned());
    }
    lines.extend(summary.first_byte_ms.map(|first| format!("first byte  {first:.2} ms")));
    lines.push(format!(
        "received    {} in {}, {:.1} kbit/s",
        bytes(summary.bytes),
        duration(summary.elapsed_ms),
        rate(args, summary) / 1e3
    ));
    if let Some(there) = keeping.resumed_at {
        lines.push(format!("went on     after {} of an earlier request", bytes(there)));
    }
    lines.extend(losses(args, summary));
    let kept = keeping.kept.as_ref();
    if let Some(WrittenOutput { left_out: count @ 1.., .. }) = kept {
        lines.push(format!("left out    {count} lines that are no track records"));
    }
    if !summary.reflected {
        // A stream that many share, from somewhere on, has no digest.
        lines.push(format!("digest      {digest}"));
    }
    lines.extend(destination(args, kept));
    lines.join("\n") + "\n"
}

/// The lines about datagrams and pauses of a stream.
fn losses(args: &RequestArgs, summary: &TransferSummary) -> Vec<String> {
    let mut lines = Vec::new();
    if args.service.is_stream() {
        let (missing, count) = if summary.late > 0 { ("late", summary.late) } else { ("lost", summary.lost) };
        lines.push(format!(
            "packets     {}, {missing} {count}, reordered {}, duplicates {}, jitter {:.2} ms",
            summary.packets, summary.reordered, summary.duplicates, summary.jitter_ms
        ));
    }
    if summary.interruptions > 0 {
        let times = if summary.interruptions == 1 { "once" } else { "several times" };
        lines.push(format!("interrupted {times}, for {} in all", duration(summary.interrupted_ms)));
    }
    if summary.unread > 0 {
        lines.push(format!("unread      {} packets: the output was too slow for them", summary.unread));
    }
    lines
}

fn destination(args: &RequestArgs, kept: Option<&WrittenOutput>) -> Option<String> {
    let target = args.receive.output.as_ref()?;
    Some(match &kept?.finished {
        Finished::Written { bytes: count, .. } => format!("written     {} to {target}", bytes(*count)),
        Finished::ReaderGone => closed(Some(target)),
        Finished::KeptPart { path, .. } if args.service.is_stream() => {
            format!("incomplete  what came is kept as {}", path.display())
        }
        Finished::KeptPart { path, bytes: count } => {
            format!("incomplete  {} are in {}; the same request goes on from there", bytes(*count), path.display())
        }
        Finished::Discarded => format!("incomplete  nothing was written to {target}"),
    })
}

/// Payload bits per second: of a stream from its first byte on, of an object from the request on.
fn rate(args: &RequestArgs, summary: &TransferSummary) -> f64 {
    let before = summary.first_byte_ms.filter(|_| args.service.is_stream()).unwrap_or(0.0);
    let seconds = (summary.elapsed_ms - before) / 1e3;
    if seconds > 0.0 { summary.bytes as f64 * 8.0 / seconds } else { 0.0 }
}

/// The known part of a transfer whose reader goes.
pub(super) struct PartialTransfer {
    begun: Instant,
    accepted: Option<Accepted>,
    bytes: u64,
}

#[derive(Serialize)]
struct EarlyReport<'a> {
    schema: u32,
    service: String,
    output: Option<String>,
    /// Always true: the reader of the output has gone.
    closed: bool,
    provider: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider_name: Option<&'a str>,
    bytes: u64,
    elapsed_ms: f64,
}

impl PartialTransfer {
    pub(super) fn begin() -> Self {
        Self { begun: Instant::now(), accepted: None, bytes: 0 }
    }

    pub(super) fn accepted(&mut self, accepted: &Accepted) {
        self.accepted = Some(accepted.clone());
    }

    pub(super) fn add(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// Reports the data that came until the reader went. The command ends well, since a reader may go.
    pub(super) fn report(&self, args: &RequestArgs, output: Output) -> Outcome {
        let elapsed_ms = self.begun.elapsed().as_secs_f64() * 1e3;
        if output.is_json() {
            let report = EarlyReport {
                schema: SCHEMA,
                service: args.service.to_string(),
                output: args.receive.output.as_ref().map(ToString::to_string),
                closed: true,
                provider: self.accepted.as_ref().map(|accepted| accepted.provider.to_string()),
                provider_name: self.accepted.as_ref().and_then(|accepted| accepted.provider_name.as_deref()),
                bytes: self.bytes,
                elapsed_ms,
            };
            return Ok(output.json(&report)?);
        }
        let provider = self.accepted.as_ref().map(|accepted| {
            format!(
                "provider    {} at {}\n",
                format_node(accepted.provider, accepted.provider_name.as_deref()),
                place(accepted.cell, accepted.place.as_deref())
            )
        });
        let received = format!("received    {} in {}\n", bytes(self.bytes), duration(elapsed_ms));
        let closed = closed(args.receive.output.as_ref());
        output.say(provider.unwrap_or_default() + &received + &closed);
        Ok(())
    }
}

fn closed(target: Option<&SinkSpec>) -> String {
    let target = target.map(ToString::to_string).unwrap_or_default();
    format!("closed      the reader of {target} closed early and has only a part")
}
