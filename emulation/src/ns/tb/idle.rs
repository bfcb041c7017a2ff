//! `tb-` commands that are understood and have no effect here.

use super::{Flow, Interp, Outcome, Value, fail, short};

/// Commands that are understood and have no effect here: what each argument
/// must be (`n` a node, `l` a link or LAN, `L` a LAN, `K` a link, `o` an
/// object, `b` 0 or 1, `*` anything; from `?` on they may be left out, `+` is
/// any number more), and why there is nothing to do.
const IDLE: [(&str, &str, &str); 85] = [
    ("tb-add-node-attribute", "o**", MACHINES),
    ("tb-add-node-service-hook", "*+", MACHINES),
    ("tb-bind-parent", "o*", MACHINES),
    ("tb-elab-in-elab", "*", TESTBED),
    ("tb-elab-in-elab-topology", "*", TESTBED),
    ("tb-elabinelab-singlenet", "?*", TESTBED),
    ("tb-feedback-vlan", "nL+", TESTBED),
    ("tb-feedback-vlink", "K+", TESTBED),
    ("tb-feedback-vnode", "n*+", TESTBED),
    ("tb-fix-current-resources", "b", TESTBED),
    ("tb-fix-interface", "nl*", MACHINES),
    ("tb-fix-node", "o*", MACHINES),
    ("tb-force-endnodeshaping", "b", SHAPING),
    ("tb-get-elabinelab-role-attribute", "**", TESTBED),
    ("tb-set-allowcolocate", "lb", MACHINES),
    ("tb-set-colocate-factor", "*", MACHINES),
    ("tb-set-cpu-usage", "*", MACHINES),
    ("tb-set-delay-capacity", "*", SHAPING),
    ("tb-set-delay-os", "*", SHAPING),
    ("tb-set-dpdb", "*", TESTBED),
    ("tb-set-elabinelab-attribute", "**?*", TESTBED),
    ("tb-set-elabinelab-cvstag", "*", TESTBED),
    ("tb-set-elabinelab-fw-type", "*", TESTBED),
    ("tb-set-elabinelab-role-attribute", "***?*", TESTBED),
    ("tb-set-encapsulate", "b", SHAPING),
    ("tb-set-endnodeshaping", "lb", SHAPING),
    ("tb-set-inner-elab-eid", "*", TESTBED),
    ("tb-set-ipassign-args", "*", ADDRESSES),
    ("tb-set-jail-os", "*", MACHINES),
    ("tb-set-lan-accesspoint", "Ln", MACHINES),
    ("tb-set-lan-backfill", "L*", SHAPING),
    ("tb-set-lan-est-bandwidth", "L*", SHAPING),
    ("tb-set-lan-protocol", "L*", MACHINES),
    ("tb-set-lan-setting", "L**", MACHINES),
    ("tb-set-lan-simplex-backfill", "Ln**", SHAPING),
    ("tb-set-link-backfill", "o*?*", SHAPING),
    ("tb-set-link-encap", "l*", SHAPING),
    ("tb-set-link-est-bandwidth", "o*?*", SHAPING),
    ("tb-set-link-failure-action", "l*", TESTBED),
    ("tb-set-link-layer", "K*", MACHINES),
    ("tb-set-link-protocol", "K*", MACHINES),
    ("tb-set-link-simplex-backfill", "Kn*", SHAPING),
    ("tb-set-mem-usage", "*", MACHINES),
    ("tb-set-modelnet-physnodes", "**", SHAPING),
    ("tb-set-multiplexed", "l*", SHAPING),
    ("tb-set-node-cmdline", "o*", MACHINES),
    ("tb-set-node-failure-action", "o*", TESTBED),
    ("tb-set-node-id", "n*", MACHINES),
    ("tb-set-node-inner-elab-role", "n*", TESTBED),
    ("tb-set-node-lan-backfill", "nL*", SHAPING),
    ("tb-set-node-lan-est-bandwidth", "nL*", SHAPING),
    ("tb-set-node-lan-setting", "Ln**", MACHINES),
    ("tb-set-node-loadlist", "o*", MACHINES),
    ("tb-set-node-memory-size", "n*", MACHINES),
    ("tb-set-node-plab-plcnet", "n*", TESTBED),
    ("tb-set-node-plab-role", "n*", TESTBED),
    ("tb-set-node-routable-ip", "nb", ADDRESSES),
    ("tb-set-node-rpms", "o*+", FILES),
    ("tb-set-node-service", "*+", MACHINES),
    ("tb-set-node-sharingmode", "o*", MACHINES),
    ("tb-set-node-startup", "o*", "use tb-set-node-startcmd to run something"),
    ("tb-set-node-tarfiles", "o*+", FILES),
    ("tb-set-node-usesharednode", "o*", MACHINES),
    ("tb-set-nonfs", "*", FILES),
    ("tb-set-noshaping", "lb", SHAPING),
    ("tb-set-oml-mp", "*+", TESTBED),
    ("tb-set-oml-server", "n", TESTBED),
    ("tb-set-oml-use-control", "*", TESTBED),
    ("tb-set-packing-strategy", "*", MACHINES),
    ("tb-set-security-level", "*", "there are no firewalls here"),
    ("tb-set-switch-fabric", "l*", MACHINES),
    ("tb-set-tarfiles", "*+", FILES),
    ("tb-set-use-oml", "+", TESTBED),
    ("tb-set-uselatestwadata", "b", TESTBED),
    ("tb-set-useveth", "l*", SHAPING),
    ("tb-set-usewatunnels", "b", TESTBED),
    ("tb-set-vlink-emulation", "*", SHAPING),
    ("tb-set-wasolver-weights", "***", TESTBED),
    ("tb-unset-elabinelab-attribute", "*", TESTBED),
    ("tb-unset-elabinelab-role-attribute", "**", TESTBED),
    ("tb-use-endnodeshaping", "b", SHAPING),
    ("tb-use-ipassign", "b", ADDRESSES),
    ("tb-use-modelnet", "*", SHAPING),
    ("tb-use-physnaming", "b", MACHINES),
    ("tbx-log", "*", TESTBED),
];
pub(super) const MACHINES: &str = "every host is a part of this machine";
const SHAPING: &str = "every link is shaped in the same place here";
const TESTBED: &str = "it is about the testbed itself";
const FILES: &str = "the hosts share this machine's files";
const ADDRESSES: &str = "addresses are chosen here";

/// Whether a command is one of them.
pub(super) fn knows(name: &str) -> bool {
    IDLE.iter().any(|(idle, ..)| *idle == name)
}

/// Checks a command's arguments, and remarks that it has no effect.
pub(super) fn run(interp: &mut Interp, words: &[Value]) -> Outcome {
    let name = words[0].as_str().trim_start_matches("::");
    let Some((_, kinds, why)) = IDLE.iter().find(|(idle, ..)| *idle == name) else { return Ok(Value::default()) };
    let mut arguments = words[1..].iter();
    let mut optional = false;
    for kind in kinds.chars() {
        match kind {
            '?' => optional = true,
            '+' => arguments = [].iter(),
            _ => match arguments.next() {
                Some(word) => check(interp, name, kind, word)?,
                None if optional => {}
                None => {
                    return fail(format!(
                        "wrong # args: {name} takes {} or more",
                        kinds.trim_matches(['?', '+']).len()
                    ));
                }
            },
        }
    }
    if arguments.next().is_some() {
        return fail(format!("wrong # args: {name} takes at most {}", kinds.trim_matches('?').replace('?', "").len()));
    }
    interp.ignored(format!("{name}: {why}"));
    Ok(Value::default())
}

fn check(interp: &mut Interp, name: &str, kind: char, word: &Value) -> Result<(), Flow> {
    match kind {
        'n' => interp.node_named(word).map(|_| ()),
        'l' => interp.net_named(word).map(|_| ()),
        'L' => interp.lan_named(word).map(|_| ()),
        'K' => interp.link_named(word).map(|_| ()),
        'o' => interp.object_named(word).map(|_| ()),
        'b' if !matches!(word.as_str(), "0" | "1") => {
            Err(Flow::refuse(format!("{name} takes 0 or 1, not \"{}\"", short(word.as_str()))))
        }
        _ => Ok(()),
    }
}

/// A `tb-` command whose name is like `name`.
pub(crate) fn similar(name: &str) -> Option<&'static str> {
    const EFFECTIVE: [&str; 17] = [
        "tb-set-node-os",
        "tb-set-hardware",
        "tb-set-node-startcmd",
        "tb-set-sync-server",
        "tb-set-ip",
        "tb-set-ip-interface",
        "tb-set-ip-link",
        "tb-set-ip-lan",
        "tb-set-netmask",
        "tb-set-link-loss",
        "tb-set-lan-loss",
        "tb-set-link-simplex-params",
        "tb-set-lan-simplex-params",
        "tb-set-node-lan-delay",
        "tb-set-node-lan-bandwidth",
        "tb-set-node-lan-loss",
        "tb-set-node-lan-params",
    ];
    if !name.starts_with("tb-") || name.len() > 60 {
        return None;
    }
    let known = EFFECTIVE.into_iter().chain(IDLE.iter().map(|(idle, ..)| *idle));
    known
        .map(|known| (distance(known, name), known))
        .min()
        .filter(|(distance, _)| *distance <= 3)
        .map(|(_, known)| known)
}

/// How many letters must be changed, added or left out.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut before = i;
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let changed = before + usize::from(x != y);
            before = row[j + 1];
            row[j + 1] = changed.min(before + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
