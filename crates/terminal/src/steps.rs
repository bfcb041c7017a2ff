//! A progress display in steps, on a terminal only.

use std::borrow::Cow;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::output::Output;

/// Time between two frames of a spinner: something moves within 100 ms.
pub const TICK: Duration = Duration::from_millis(100);

/// A progress display with a known number of steps.
pub struct Steps {
    bar: ProgressBar,
}

impl Steps {
    pub fn start(output: Output, what: impl Into<Cow<'static, str>>, steps: usize) -> Self {
        let bar = if output.shows_progress() { ProgressBar::new(steps as u64) } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {bar:30} {pos}/{len} {elapsed}") {
            bar.set_style(style);
        }
        bar.set_message(what);
        if output.shows_progress() {
            bar.enable_steady_tick(TICK);
        }
        Self { bar }
    }

    pub fn say(&self, what: impl Into<Cow<'static, str>>) {
        self.bar.set_message(what);
    }

    /// Prints a line above the display, which stays.
    pub fn line(&self, what: &str) {
        self.bar.println(what);
    }

    pub fn advance(&self) {
        self.bar.inc(1);
    }

    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.end();
    }
}
