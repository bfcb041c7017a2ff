//! Warnings about a prepared plan: settings that daemons lack, that are unused, or that cut requests off.

use super::error::RunError;
use super::plan::{Architecture, HubSelection, Plan, PlanError};
use super::prepare::Prepared;

impl Prepared {
    /// Checks that the plan needs nothing that daemons lack.
    ///
    /// # Errors
    /// Fails when it does.
    pub fn check_for_daemons(&self) -> Result<(), RunError> {
        if self.plan.handshake.is_some() {
            let message = "daemons have no `handshake`, whose length follows the path: run it with emulate simulate";
            return Err(PlanError::new(&self.file, 0, message).into());
        }
        if !self.plan.sealed_keys {
            let message =
                "daemons always leave sealed keys with hubs: run a plan without `sealed_keys` with emulate simulate";
            return Err(PlanError::new(&self.file, 0, message).into());
        }
        Ok(())
    }

    /// Checks that the plan needs nothing that virtual time lacks.
    ///
    /// # Errors
    /// Fails when it does.
    pub fn check_for_simulation(&self) -> Result<(), RunError> {
        let Some(program) = self.plan.programs.first() else { return Ok(()) };
        let message = format!(
            "the program {} needs real time: run the plan with emulate run, or leave its [[program]] out",
            program.name.name
        );
        Err(PlanError::new(&self.file, program.name.line, message).into())
    }

    /// Parts of the plan and its topology that virtual time leaves out, one sentence each.
    pub fn unused_in_simulation(&self) -> Vec<String> {
        let (file, programs) = (self.file.display(), self.network.programs.len());
        let capture =
            || format!("{file}: `capture` has no use here: packets in virtual time have lengths, but are no frames");
        let left_out = || format!("{file}: virtual time leaves out the programs of the topology, {programs} in all");
        let all = [self.plan.capture.is_some().then(capture), (programs > 0).then(left_out)];
        all.into_iter().flatten().collect()
    }

    /// Settings that the plan's architecture does not use, one sentence each.
    pub fn unused(&self) -> Vec<String> {
        let Plan { architecture, caches, server, .. } = &self.plan;
        let (file, name) = (self.file.display(), architecture.name());
        let unused = |key: &str, of: &str| format!("{file}: `{key}` is of {of} alone: {name} makes no use of it");
        let has_caches = *caches != HubSelection::Count(1) && *architecture != Architecture::ClientServerCaching;
        let has_server = server.is_some() && !architecture.has_server();
        let all = [
            has_caches.then(|| unused("caches", "client-server-caching")),
            has_server.then(|| unused("server", "client-server and client-server-caching")),
        ];
        all.into_iter().flatten().collect()
    }

    /// Settings that are allowed but doubtful, one sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let Plan { drain, timeout, stream, .. } = self.plan;
        let longest = timeout + stream;
        let cuts = drain < longest && self.plan.architecture.has_daemons();
        let duration = roost_topology::units::format_duration;
        let cut = || {
            format!(
                "{}: a drain of {} cuts requests off that may take {} (time-out and stream): make it that long",
                self.file.display(),
                duration(drain),
                duration(longest)
            )
        };
        cuts.then(cut).into_iter().collect()
    }
}
