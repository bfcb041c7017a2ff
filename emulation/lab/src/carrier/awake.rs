//! Idle processors that stay awake: one that sleeps takes longer to wake than a packet may be late.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};

/// The longest that a processor may take to wake, in microseconds, for as long as the file is open. It is written as
/// the kernel's `pm_qos_interface` says, a native 32-bit number.
const LATENCY_DEVICE: &str = "/dev/cpu_dma_latency";
const LONGEST_WAKE_US: i32 = 0;

/// Keeps all processors awake until it is dropped.
#[derive(Debug)]
pub(super) struct Awake {
    /// `None` if it was not asked for.
    held: Option<io::Result<File>>,
}

impl Awake {
    /// Asks for it. A refusal costs exactness only, so it is a fact and no failure.
    pub(super) fn ask(is_wanted: bool) -> Self {
        Self { held: is_wanted.then(hold) }
    }

    /// The outcome, for the record of a run.
    pub(super) fn fact(&self) -> String {
        match &self.held {
            None => "not asked for".to_owned(),
            Some(Ok(_)) => "yes".to_owned(),
            Some(Err(error)) => {
                format!("refused by this system ({LATENCY_DEVICE}: {error}): run as root, on a machine that has it")
            }
        }
    }
}

fn hold() -> io::Result<File> {
    let mut device = OpenOptions::new().write(true).open(LATENCY_DEVICE)?;
    device.write_all(&LONGEST_WAKE_US.to_ne_bytes())?;
    Ok(device)
}
