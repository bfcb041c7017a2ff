//! `--capture` of the commands that bring a network up.

use std::path::{Path, PathBuf};

use clap::Args;
use roost_experiment::plan::CapturePlan;
use roost_lab::{CaptureLimits, CaptureSummary, Lab, parse_size};
use roost_terminal::Output;

use crate::failure::{CommandResult, Failure};

/// The links whose packets are kept, and how much of them.
#[derive(Debug, Args)]
pub(crate) struct CaptureArgs {
    /// Write the packets of these links and LANs as pcapng, or of all
    #[arg(long, value_name = "LINK", value_delimiter = ',', help_heading = "Capture")]
    capture: Vec<String>,
    /// Keep so many bytes of each packet: 96 are its headers
    #[arg(
        long,
        value_name = "BYTES",
        requires = "capture",
        help_heading = "Capture",
        value_parser = clap::value_parser!(u32).range(14..)
    )]
    capture_snap: Option<u32>,
    /// End each link's file at this size [default: 1GB]
    #[arg(long, value_name = "SIZE", requires = "capture", help_heading = "Capture", value_parser = parse_size)]
    capture_size: Option<u64>,
    /// Keep the last packets of that size instead of the first, in two files
    #[arg(long, requires = "capture", help_heading = "Capture")]
    capture_ring: bool,
}

impl CaptureArgs {
    pub(crate) fn plan(&self) -> Option<CapturePlan> {
        let default = CaptureLimits::default();
        let limits = CaptureLimits {
            snap: self.capture_snap.unwrap_or(default.snap),
            bytes: self.capture_size.unwrap_or(default.bytes),
            is_ring: self.capture_ring,
        };
        let links = self.capture.clone();
        (!links.is_empty()).then_some(CapturePlan { links, limits, line: 0 })
    }

    /// Keeps packets of a lab from now on, if links are named. `file` is the topology's.
    pub(crate) fn start(&self, lab: &Lab, file: &Path) -> CommandResult {
        self.plan().map_or(Ok(()), |plan| start(&plan, lab, file))
    }
}

/// The folder of files, below the working folder.
const FOLDER: &str = "captures";

/// Keeps packets of a lab from now on.
pub(crate) fn start(plan: &CapturePlan, lab: &Lab, file: &Path) -> CommandResult {
    let nets = plan.nets(lab.topology(), file).map_err(|error| Failure::bad_input(error.to_string()))?;
    Ok(lab.capture(&nets, &PathBuf::from(FOLDER), plan.limits)?)
}

/// Ends the capture of a lab, and says what it wrote.
pub(crate) fn finish(lab: &Lab, output: Output) -> CommandResult {
    for summary in lab.end_capture()? {
        let CaptureSummary { file, packets, .. } = &summary;
        output.say(format!("Wrote {}: {packets} packets", file.display()));
        summary.doubt().iter().for_each(|doubt| output.say(format!("warning: {doubt}")));
    }
    Ok(())
}
