//! The daemon of the client/server baseline: the same directory as a super node's, and a relay of all data.

use std::process::ExitCode;

use roost_core::hub::HubKind;
use roost_runtime::hub::{HubDaemon, HubProgram};

enum CsServer {}

impl HubProgram for CsServer {
    const NAME: &'static str = "cs-server";
    const ABOUT: &'static str =
        "The server of the client/server baseline, or a cache of it: indexes services, and relays all data";
    const KIND: HubKind = HubKind::Server;
}

fn main() -> ExitCode {
    roost_runtime::main::<HubDaemon<CsServer>>()
}
