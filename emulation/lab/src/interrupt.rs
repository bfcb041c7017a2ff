//! Ctrl-C: once for a clean stop, twice for an immediate one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use super::error::LabError;
use super::kernel;

/// The exit code of an interrupted command.
const INTERRUPTED: i32 = 130;

/// A request to end: Ctrl-C, SIGTERM or a closed terminal.
#[derive(Clone, Debug)]
pub struct Interrupt {
    told: watch::Receiver<bool>,
    flag: Arc<AtomicBool>,
}

impl Interrupt {
    /// Starts to listen, on a thread of its own, so that the second signal ends the process at any time.
    ///
    /// # Errors
    /// Fails when the system refuses to install the handlers.
    pub fn listen() -> Result<Self, LabError> {
        let failed = |error: std::io::Error| LabError::kernel("listen to signals", error);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let (sender, told) = watch::channel(false);
        let flag = Arc::new(AtomicBool::new(false));
        let set = Arc::clone(&flag);
        let [mut first, mut second, mut third] = {
            let _guard = runtime.enter();
            let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
            let [a, b, c] = kinds.map(listen_signal);
            [a.map_err(failed)?, b.map_err(failed)?, c.map_err(failed)?]
        };
        let listen = async move {
            loop {
                tokio::select! {
                    () = next(&mut first) => {}
                    () = next(&mut second) => {}
                    () = next(&mut third) => {}
                }
                set.store(true, Ordering::Relaxed);
                if sender.send_replace(true) {
                    // The kernel ends everything else with this process.
                    std::process::exit(INTERRUPTED);
                }
            }
        };
        let spawned = std::thread::Builder::new().name("signals".to_owned()).spawn(move || runtime.block_on(listen));
        spawned.map_err(failed)?;
        Ok(Self { told, flag })
    }

    pub fn is_set(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }

    /// The flag for calls that poll it themselves.
    pub fn flag(&self) -> &AtomicBool {
        &self.flag
    }

    pub async fn wait(&mut self) {
        if self.told.wait_for(|set| *set).await.is_err() {
            // The listening thread never ends; without it nobody can interrupt.
            std::future::pending().await
        }
    }
}

/// Listens to a signal, unless this process inherited it as ignored, as under `nohup`.
fn listen_signal(kind: SignalKind) -> std::io::Result<Option<Signal>> {
    if kernel::is_ignored(kind.as_raw_value()) { Ok(None) } else { signal(kind).map(Some) }
}

/// Waits for a signal; for ever if it is ignored.
async fn next(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}
