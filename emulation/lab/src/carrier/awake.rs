//! Idle processors that stay awake: one that sleeps takes longer to wake than a packet may be late.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};

/// The kernel keeps what is written here for as long as the file is open; see its `pm_qos_interface`.
const LATENCY_DEVICE: &str = "/dev/cpu_dma_latency";
/// The longest that a processor may take to wake, microseconds, as a native 32-bit number.
const LONGEST_WAKE_US: i32 = 0;
/// The driver that heeds it; the kernel may have none, as in some virtual machines.
const IDLE_DRIVER: &str = "/sys/devices/system/cpu/cpuidle/current_driver";

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
                format!("refused by this system ({error}): run as root, outside of a container, on a kernel that can")
            }
        }
    }
}

fn hold() -> io::Result<File> {
    if fs::read_to_string(IDLE_DRIVER).map_or(true, |driver| driver.trim() == "none") {
        return Err(io::Error::other("its kernel has no driver for idle processors"));
    }
    let mut device = OpenOptions::new().write(true).open(LATENCY_DEVICE).map_err(named)?;
    device.write_all(&LONGEST_WAKE_US.to_ne_bytes()).map_err(named)?;
    Ok(device)
}

fn named(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{LATENCY_DEVICE}: {error}"))
}
