//! Progress of a transfer, on a terminal only.

use indicatif::{ProgressBar, ProgressStyle};
use roost_control::Accepted;
use roost_terminal::{Output, TICK};

/// A spinner until a provider accepts, a bar from then on.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Begins to show that something is under way.
    pub(crate) fn start(output: Output, what: String) -> Self {
        let bar = if output.shows_progress() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        bar.set_message(what);
        bar.enable_steady_tick(TICK);
        Self { bar }
    }

    /// Shows how much is to come.
    pub(crate) fn accepted(&self, accepted: &Accepted) {
        let stream = accepted.duration_ms.zip(accepted.bits_per_second);
        let expected = stream.map(|(millis, rate)| u64::from(millis) * u64::from(rate) / 8_000);
        if let Some(bytes) = accepted.bytes.or(expected) {
            self.bar.set_length(bytes);
        }
        if let Ok(style) =
            ProgressStyle::with_template("{msg} {bar:30} {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec}")
        {
            self.bar.set_style(style);
        }
        self.bar.set_message(format!("from {}", accepted.cell));
        self.bar.set_position(0);
    }

    /// More has come.
    pub(crate) fn add(&self, bytes: usize) {
        self.bar.inc(bytes as u64);
    }

    /// Takes it off the screen.
    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end();
    }
}
