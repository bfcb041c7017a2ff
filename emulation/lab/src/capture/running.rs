//! Captures of a running lab.

use std::path::Path;

use roost_topology::model::NetIndex;

use super::{Capture, CaptureLimits, CaptureSummary, CapturedNet};
use crate::{Lab, LabError};

impl Lab {
    /// Captures these links and LANs from now on, each into a file `LINK.pcapng` in a folder. A capture before ends.
    ///
    /// # Errors
    /// Fails when a file cannot be made, or the carrier has ended.
    pub fn capture(&self, nets: &[NetIndex], folder: &Path, limits: CaptureLimits) -> Result<(), LabError> {
        self.end_capture()?;
        let is_elsewhere =
            |net: &&NetIndex| self.spread.as_ref().is_some_and(|spread| spread.shares.carriers[**net] > 0);
        if let Some(net) = nets.iter().find(is_elsewhere) {
            let name = &self.topology.nets[*net].name;
            return Err(LabError::NoSuch(format!("{name} is carried by another machine, where nothing is captured")));
        }
        let name = |net: NetIndex| self.topology.nets.get(net).map(|found| found.name.clone());
        let net = |net: &NetIndex| Some(CapturedNet { name: name(*net)?, pipes: self.carrier.pipes(*net) });
        let nets = nets.iter().filter_map(net).collect();
        let failed = |error| LabError::kernel(format!("capture into {}", folder.display()), error);
        let (capture, sender) = Capture::start(nets, folder, limits, self.carrier.wall_origin()).map_err(failed)?;
        self.carrier.capture(Some(sender))?;
        *self.capture.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(capture);
        Ok(())
    }

    /// Ends the capture, if there is one, and tells what it wrote.
    ///
    /// # Errors
    /// Fails when the carrier has ended; what it handed over before is in the files.
    pub fn end_capture(&self) -> Result<Vec<CaptureSummary>, LabError> {
        let capture = self.capture.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        let Some(capture) = capture else { return Ok(Vec::new()) };
        self.carrier.capture(None)?;
        let begun = *self.begun.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        Ok(capture.finish(begun))
    }
}
