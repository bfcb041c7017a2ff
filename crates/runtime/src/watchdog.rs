//! Signs of life for the service manager, given by the machine itself.

use tokio::task::JoinHandle;

use crate::driver::DriverStopped;

/// Asks the machine for a sign of life; at most one such question waits. A machine that hangs gives none.
#[derive(Debug, Default)]
pub(crate) struct MachineWatchdog {
    asking: Option<JoinHandle<Result<(), DriverStopped>>>,
}

impl MachineWatchdog {
    /// Starts `beat`, unless the machine has not finished the last one.
    pub(crate) fn ask(&mut self, beat: impl Future<Output = Result<(), DriverStopped>> + Send + 'static) {
        if self.asking.as_ref().is_none_or(JoinHandle::is_finished) {
            self.asking = Some(tokio::spawn(beat));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn machine_that_hangs_is_asked_once() {
        let (asked, beats) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let mut heart = MachineWatchdog::default();
        let mut ask = |hangs: bool| {
            let (asked, beats) = (Arc::clone(&asked), Arc::clone(&beats));
            heart.ask(async move {
                asked.fetch_add(1, Ordering::Relaxed);
                if hangs {
                    std::future::pending::<()>().await;
                }
                beats.fetch_add(1, Ordering::Relaxed);
                Ok(())
            });
        };
        for hangs in [false, false, true, false, false] {
            ask(hangs);
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
        }
        assert_eq!((asked.load(Ordering::Relaxed), beats.load(Ordering::Relaxed)), (3, 2));
    }
}
