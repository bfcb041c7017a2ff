//! Progress in steps, on a terminal only.

use std::borrow::Cow;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::output::Output;

/// Time between two frames of a spinner: something moves within 100 ms.
pub const TICK: Duration = Duration::from_millis(100);

/// How many of a known number of steps are done.
pub struct Steps {
    bar: ProgressBar,
}

impl Steps {
    /// Begins to count to `steps`.
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

    /// Says what is being done now.
    pub fn say(&self, what: impl Into<Cow<'static, str>>) {
        self.bar.set_message(what);
    }

    /// Leaves a line above it, which stays.
    pub fn line(&self, what: &str) {
        self.bar.println(what);
    }

    /// One step more is done.
    pub fn advance(&self) {
        self.bar.inc(1);
    }

    /// Takes it off the screen.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.end();
    }
}
