//! `tb-` commands that are understood and have no effect here.
//!
//! Arguments are not read: a mistake in them changes nothing in the network.

use roost_topology::suggest;

use super::{TclInterpreter, TclResult, TclValue};

pub(super) const MACHINES: &str = "every host is a part of this machine";

/// The commands, by the reason why they have no effect.
const IDLE: [(&str, &[&str]); 6] = [
    (
        MACHINES,
        &[
            "tb-add-node-attribute",
            "tb-add-node-service-hook",
            "tb-bind-parent",
            "tb-fix-interface",
            "tb-fix-node",
            "tb-set-allowcolocate",
            "tb-set-colocate-factor",
            "tb-set-cpu-usage",
            "tb-set-jail-os",
            "tb-set-lan-accesspoint",
            "tb-set-lan-protocol",
            "tb-set-lan-setting",
            "tb-set-link-layer",
            "tb-set-link-protocol",
            "tb-set-mem-usage",
            "tb-set-node-cmdline",
            "tb-set-node-id",
            "tb-set-node-lan-setting",
            "tb-set-node-loadlist",
            "tb-set-node-memory-size",
            "tb-set-node-service",
            "tb-set-node-sharingmode",
            "tb-set-node-usesharednode",
            "tb-set-packing-strategy",
            "tb-set-switch-fabric",
            "tb-use-physnaming",
        ],
    ),
    (
        "it is about the testbed itself",
        &[
            "tb-elab-in-elab",
            "tb-elab-in-elab-topology",
            "tb-elabinelab-singlenet",
            "tb-feedback-vlan",
            "tb-feedback-vlink",
            "tb-feedback-vnode",
            "tb-fix-current-resources",
            "tb-get-elabinelab-role-attribute",
            "tb-set-dpdb",
            "tb-set-elabinelab-attribute",
            "tb-set-elabinelab-cvstag",
            "tb-set-elabinelab-fw-type",
            "tb-set-elabinelab-role-attribute",
            "tb-set-inner-elab-eid",
            "tb-set-link-failure-action",
            "tb-set-node-failure-action",
            "tb-set-node-inner-elab-role",
            "tb-set-node-plab-plcnet",
            "tb-set-node-plab-role",
            "tb-set-oml-mp",
            "tb-set-oml-server",
            "tb-set-oml-use-control",
            "tb-set-use-oml",
            "tb-set-uselatestwadata",
            "tb-set-usewatunnels",
            "tb-set-wasolver-weights",
            "tb-unset-elabinelab-attribute",
            "tb-unset-elabinelab-role-attribute",
            "tbx-log",
        ],
    ),
    (
        "every link is shaped in the same place here",
        &[
            "tb-force-endnodeshaping",
            "tb-set-delay-capacity",
            "tb-set-delay-os",
            "tb-set-encapsulate",
            "tb-set-endnodeshaping",
            "tb-set-lan-backfill",
            "tb-set-lan-est-bandwidth",
            "tb-set-lan-simplex-backfill",
            "tb-set-link-backfill",
            "tb-set-link-encap",
            "tb-set-link-est-bandwidth",
            "tb-set-link-simplex-backfill",
            "tb-set-modelnet-physnodes",
            "tb-set-multiplexed",
            "tb-set-node-lan-backfill",
            "tb-set-node-lan-est-bandwidth",
            "tb-set-noshaping",
            "tb-set-useveth",
            "tb-set-vlink-emulation",
            "tb-use-endnodeshaping",
            "tb-use-modelnet",
        ],
    ),
    ("addresses are chosen here", &["tb-set-ipassign-args", "tb-set-node-routable-ip", "tb-use-ipassign"]),
    (
        "the hosts share this machine's files",
        &["tb-set-node-rpms", "tb-set-node-tarfiles", "tb-set-nonfs", "tb-set-tarfiles"],
    ),
    ("use tb-set-node-startcmd to run something", &["tb-set-node-startup"]),
];

fn reason(name: &str) -> Option<&'static str> {
    IDLE.iter().find(|(_, commands)| commands.contains(&name)).map(|(why, _)| *why)
}

/// True if a command is one of them.
pub(super) fn knows(name: &str) -> bool {
    reason(name).is_some()
}

/// Notes that a command has no effect.
pub(super) fn run(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    let name = words[0].as_str().trim_start_matches("::");
    if let Some(why) = reason(name) {
        interp.ignored(format!("{name}: {why}"));
    }
    Ok(TclValue::default())
}

/// A `tb-` command with a similar name.
pub(crate) fn similar(name: &str) -> Option<&'static str> {
    let rest = name.strip_prefix("tb-").filter(|_| name.len() <= 60)?;
    let known =
        super::EFFECTIVE.iter().map(|(known, _)| *known).chain(IDLE.iter().flat_map(|(_, idle)| idle.iter().copied()));
    let known: Vec<&'static str> = known.collect();
    let near = suggest::nearest(rest, known.iter().filter_map(|known| known.strip_prefix("tb-")))?;
    known.into_iter().find(|known| known.strip_prefix("tb-") == Some(near))
}
