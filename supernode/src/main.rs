//! The daemon of a super node: it indexes services, hands requests to providers, and works with other super nodes.

use std::process::ExitCode;

use roost_core::hub::HubKind;
use roost_runtime::hub::{HubDaemon, HubProgram};

enum Supernode {}

impl HubProgram for Supernode {
    const NAME: &'static str = "supernode";
    const ABOUT: &'static str =
        "A super node of a Roost overlay: indexes services by place, and hands requests to providers";
    const KIND: HubKind = HubKind::SuperNode;
}

fn main() -> ExitCode {
    roost_runtime::main::<HubDaemon<Supernode>>()
}
