//! Ctrl-C, as something to look at.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::SIGINT;

use crate::failure::{Code, Failure, Outcome};

/// From now on Ctrl-C (`SIGINT`) does not end this process but is noted. The
/// programs that it starts get the signal, if it comes from the terminal, and
/// do with it what they do.
pub(crate) fn note() -> Outcome<Interrupted> {
    let flag = Arc::new(AtomicBool::new(false));
    let registered = signal_hook::flag::register(SIGINT, Arc::clone(&flag));
    registered.map_err(|error| Failure::failed(format!("cannot listen to signals: {error}")))?;
    Ok(Interrupted(flag))
}

/// Whether Ctrl-C was noted.
#[derive(Clone, Debug)]
pub(crate) struct Interrupted(Arc<AtomicBool>);

impl Interrupted {
    /// Whether it was, since the last call; it is forgotten then.
    pub(crate) fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }

    /// The flag itself, for what is to stop when it is set.
    pub(crate) fn flag(&self) -> &AtomicBool {
        &self.0
    }

    /// A failure if it was.
    pub(crate) fn check(&self) -> Outcome {
        match self.take() {
            true => Err(Failure::new(Code::Interrupted, "interrupted; everything has been taken down")),
            false => Ok(()),
        }
    }
}
