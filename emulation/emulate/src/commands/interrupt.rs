//! Ctrl-C as a flag that can be polled.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use signal_hook::consts::SIGINT;
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Origin};

use crate::failure::{CommandResult, Failure, FailureCode};

/// Installs a handler: from now on `SIGINT` sets a flag and does not end this process.
pub(crate) fn catch_sigint() -> CommandResult<Interrupted> {
    let flag = Arc::new(AtomicBool::new(false));
    let registered = signal_hook::flag::register(SIGINT, Arc::clone(&flag));
    let signals = registered.and_then(|_| SignalsInfo::new([SIGINT]));
    let signals = signals.map_err(|error| Failure::failed(format!("cannot listen to signals: {error}")))?;
    Ok(Interrupted { flag, signals: Mutex::new(signals) })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InterruptSource {
    /// Ctrl-C: every program in the terminal's foreground receives it as well.
    Terminal,
    /// A process that sent the signal only to this one.
    Process,
}

#[derive(Debug)]
pub(crate) struct Interrupted {
    flag: Arc<AtomicBool>,
    signals: Mutex<SignalsInfo<WithOrigin>>,
}

impl Interrupted {
    /// The source of an interrupt since the last call; this resets the flag.
    pub(crate) fn take_source(&self) -> Option<InterruptSource> {
        self.flag.store(false, Ordering::Relaxed);
        let mut signals = self.signals.lock().unwrap_or_else(PoisonError::into_inner);
        let by = |origin: Origin| {
            if origin.cause == Cause::Kernel { InterruptSource::Terminal } else { InterruptSource::Process }
        };
        signals.pending().map(by).last()
    }

    /// A flag that is set from an interrupt until it is [taken](Self::take_source).
    pub(crate) fn flag(&self) -> &AtomicBool {
        &self.flag
    }

    /// Fails after an interrupt.
    pub(crate) fn check(&self) -> CommandResult {
        match self.take_source() {
            Some(_) => Err(Failure::new(FailureCode::Interrupted, "interrupted")),
            None => Ok(()),
        }
    }
}
