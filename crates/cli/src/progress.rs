//! Progress of a transfer: a bar on a terminal, or events.

use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use roost_api::Accepted;
use roost_terminal::{Output, SCHEMA, TICK};
use roost_wire::format_node;
use serde::Serialize;

/// Shows a spinner until the size is known, then a bar.
pub(crate) struct Progress {
    bar: ProgressBar,
    begun: Instant,
    /// Bytes that were there before.
    before: u64,
    bytes: u64,
    total: Option<u64>,
    /// The time of the last data.
    heard: Instant,
    /// The transfer's description, shown again after a silence.
    what: String,
    is_silent: bool,
}

/// The shortest silence that is shown, seconds.
const SHOWN_SILENCE_S: u64 = 3;

/// The progress of a transfer, for programs.
#[derive(Debug, Serialize)]
pub(crate) struct ProgressEvent {
    schema: u32,
    event: &'static str,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    percent: Option<f64>,
    rate_bits_per_second: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    left_s: Option<f64>,
    /// Seconds without data, once they are many.
    #[serde(skip_serializing_if = "Option::is_none")]
    silent_s: Option<u64>,
}

impl Progress {
    pub(crate) fn start(output: Output, what: String) -> Self {
        let bar = if output.shows_progress() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        bar.set_message(what.clone());
        // A hidden bar would only take the time of starting and ending a thread.
        if output.shows_progress() {
            bar.enable_steady_tick(TICK);
        }
        let (begun, heard) = (Instant::now(), Instant::now());
        Self { bar, begun, before: 0, bytes: 0, total: None, heard, what, is_silent: false }
    }

    /// Shows the size to come.
    pub(crate) fn accepted(&mut self, accepted: &Accepted) {
        let stream = accepted.duration_ms.zip(accepted.bits_per_second);
        let expected = stream.map(|(millis, rate)| u64::from(millis) * u64::from(rate) / 8_000);
        let provider = format_node(accepted.provider, accepted.provider_name.as_deref());
        self.known(
            format!("from {provider} at {}", accepted.cell),
            accepted.bytes.or(expected),
            accepted.offset.unwrap_or(0),
        );
    }

    /// Sets the description, the size, and the bytes that were there before.
    pub(crate) fn known(&mut self, what: String, total: Option<u64>, before: u64) {
        (self.begun, self.before, self.bytes, self.total) = (Instant::now(), before, before, total);
        if let Some(bytes) = total {
            self.bar.set_length(bytes);
        }
        let template =
            "{msg} {bar:30} {percent}% {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec} {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.bar.set_style(style);
        }
        self.heard = Instant::now();
        self.what.clone_from(&what);
        self.bar.set_message(what);
        self.bar.set_position(before);
        self.bar.reset_eta();
    }

    pub(crate) fn add(&mut self, bytes: usize) {
        self.reached(self.bytes + bytes as u64);
    }

    pub(crate) fn reached(&mut self, bytes: u64) {
        self.bytes = bytes;
        self.bar.set_position(bytes);
        self.heard = Instant::now();
        if std::mem::take(&mut self.is_silent) {
            self.bar.set_message(self.what.clone());
        }
    }

    /// Shows a silence of the provider.
    pub(crate) fn look(&mut self) {
        if let Some(seconds) = self.silent_s().filter(|_| self.bytes > 0) {
            self.is_silent = true;
            self.bar.set_message(format!("provider silent for {seconds} s, trying again"));
        }
    }

    fn silent_s(&self) -> Option<u64> {
        Some(self.heard.elapsed().as_secs()).filter(|seconds| *seconds >= SHOWN_SILENCE_S)
    }

    pub(crate) fn event(&self) -> ProgressEvent {
        let rate = (self.bytes.saturating_sub(self.before)) as f64 / self.begun.elapsed().as_secs_f64().max(1e-3);
        let left = self.total.map(|total| total.saturating_sub(self.bytes) as f64);
        ProgressEvent {
            schema: SCHEMA,
            event: "progress",
            bytes: self.bytes,
            total: self.total,
            percent: self.total.filter(|total| *total > 0).map(|total| self.bytes as f64 * 100.0 / total as f64),
            rate_bits_per_second: rate * 8.0,
            silent_s: self.silent_s(),
            left_s: left.filter(|_| rate > 0.0).map(|left| left / rate),
        }
    }

    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end();
    }
}
