//! `tb-` commands that are understood and have no effect here.

use roost_topology::suggest;

use super::{TclCompletion, TclInterpreter, TclResult, TclValue, fail, short};
use crate::state::NsObjectKind;
use crate::tcl::number;

use Argument::{
    Host, Lan, Link, Net, NetOr, Node, Number, Object, OneOf, Optional, Rate, Rest, Switch, Tarfiles, Truth, Word,
};

/// The requirement on an argument for Emulab to accept it.
#[derive(Clone, Copy)]
enum Argument {
    Word,
    Node,
    Host,
    Net,
    Link,
    Lan,
    Object,
    /// A link or a LAN, or one of these words.
    NetOr(&'static [&'static str]),
    OneOf(&'static [&'static str]),
    /// A number from the first to the second.
    Number(f64, f64),
    Switch,
    /// A word that Tcl takes for true or false.
    Truth,
    Rate,
    Optional,
    Rest,
    /// Pairs of an absolute folder and an archive, up to the end.
    Tarfiles,
}

/// Roles of a machine in an Emulab inside Emulab.
const ROLES: &[&str] = &["all", "boss", "ops", "fs", "router", "node"];
const INNER_ROLES: &[&str] = &["boss", "boss+router", "boss+fs+router", "router", "ops", "ops+fs", "fs", "node"];
/// Folders that Emulab's machines share: no archive may be unpacked there.
const SHARED: [&str; 5] = ["/proj/", "/groups/", "/users/", "/share/", "/scratch/"];

/// Each command with its arguments, and the reason why it has no effect.
const IDLE: [(&str, &[Argument], &str); 85] = [
    ("tb-add-node-attribute", &[Object, Word, Word], MACHINES),
    ("tb-add-node-service-hook", &[Word, Rest], MACHINES),
    ("tb-bind-parent", &[Host, Word], MACHINES),
    ("tb-elab-in-elab", &[Truth], TESTBED),
    ("tb-elab-in-elab-topology", &[Word], TESTBED),
    ("tb-elabinelab-singlenet", &[Optional, Word], TESTBED),
    ("tb-feedback-vlan", &[Node, Lan, Rest], TESTBED),
    ("tb-feedback-vlink", &[Link, Rest], TESTBED),
    ("tb-feedback-vnode", &[Node, Word, Rest], TESTBED),
    ("tb-fix-current-resources", &[Switch], TESTBED),
    ("tb-fix-interface", &[Node, Net, Word], MACHINES),
    ("tb-fix-node", &[Host, Word], MACHINES),
    ("tb-force-endnodeshaping", &[Switch], SHAPING),
    ("tb-get-elabinelab-role-attribute", &[Word, Word], TESTBED),
    ("tb-set-allowcolocate", &[Net, Word], MACHINES),
    ("tb-set-colocate-factor", &[Number(1.0, 100.0)], MACHINES),
    ("tb-set-cpu-usage", &[Number(1.0, 5.0)], MACHINES),
    ("tb-set-delay-capacity", &[Number(f64::MIN_POSITIVE, f64::MAX)], SHAPING),
    ("tb-set-delay-os", &[Word], SHAPING),
    ("tb-set-dpdb", &[Truth], TESTBED),
    ("tb-set-elabinelab-attribute", &[Word, Word, Optional, Word], TESTBED),
    ("tb-set-elabinelab-cvstag", &[Word], TESTBED),
    ("tb-set-elabinelab-fw-type", &[Word], TESTBED),
    ("tb-set-elabinelab-role-attribute", &[OneOf(ROLES), Word, Word, Optional, Word], TESTBED),
    ("tb-set-encapsulate", &[Switch], SHAPING),
    ("tb-set-endnodeshaping", &[Net, Word], SHAPING),
    ("tb-set-inner-elab-eid", &[Word], TESTBED),
    ("tb-set-ipassign-args", &[Word], ADDRESSES),
    ("tb-set-jail-os", &[Word], MACHINES),
    ("tb-set-lan-accesspoint", &[Lan, Node], MACHINES),
    ("tb-set-lan-backfill", &[Lan, Rate], SHAPING),
    ("tb-set-lan-est-bandwidth", &[Lan, Rate], SHAPING),
    ("tb-set-lan-protocol", &[Lan, Word], MACHINES),
    ("tb-set-lan-setting", &[Lan, Word, Word], MACHINES),
    ("tb-set-lan-simplex-backfill", &[Lan, Node, Word, Word], SHAPING),
    ("tb-set-link-backfill", &[Object, Word, Rest], SHAPING),
    ("tb-set-link-encap", &[Net, OneOf(&["gre", "egre", "vtun", "veth-ne", "vlan"])], SHAPING),
    ("tb-set-link-est-bandwidth", &[Object, Word, Rest], SHAPING),
    ("tb-set-link-failure-action", &[Net, OneOf(&["fatal", "nonfatal"])], TESTBED),
    ("tb-set-link-layer", &[Link, Word], MACHINES),
    ("tb-set-link-protocol", &[Link, Word], MACHINES),
    ("tb-set-link-simplex-backfill", &[Link, Node, Rate], SHAPING),
    ("tb-set-mem-usage", &[Number(1.0, 5.0)], MACHINES),
    ("tb-set-modelnet-physnodes", &[Word, Word], SHAPING),
    ("tb-set-multiplexed", &[Net, Word], SHAPING),
    ("tb-set-node-cmdline", &[Object, Word], MACHINES),
    ("tb-set-node-failure-action", &[Node, OneOf(&["fatal", "nonfatal", "ignore"])], TESTBED),
    ("tb-set-node-id", &[Node, Word], MACHINES),
    ("tb-set-node-inner-elab-role", &[Node, OneOf(INNER_ROLES)], TESTBED),
    ("tb-set-node-lan-backfill", &[Node, Lan, Rate], SHAPING),
    ("tb-set-node-lan-est-bandwidth", &[Node, Lan, Rate], SHAPING),
    ("tb-set-node-lan-setting", &[Lan, Node, Word, Word], MACHINES),
    ("tb-set-node-loadlist", &[Object, Word], MACHINES),
    ("tb-set-node-memory-size", &[Node, Word], MACHINES),
    ("tb-set-node-plab-plcnet", &[Node, NetOr(&["control", "exp"])], TESTBED),
    ("tb-set-node-plab-role", &[Node, OneOf(&["plc", "node", "none"])], TESTBED),
    ("tb-set-node-routable-ip", &[Node, Switch], ADDRESSES),
    ("tb-set-node-rpms", &[Object, Word, Rest], FILES),
    ("tb-set-node-service", &[Word, Rest], MACHINES),
    ("tb-set-node-sharingmode", &[Object, Word], MACHINES),
    ("tb-set-node-startup", &[Object, Word], "use tb-set-node-startcmd to run something"),
    ("tb-set-node-tarfiles", &[Object, Tarfiles], FILES),
    ("tb-set-node-usesharednode", &[Object, Word], MACHINES),
    ("tb-set-nonfs", &[Word], FILES),
    ("tb-set-noshaping", &[Net, Word], SHAPING),
    ("tb-set-oml-mp", &[Word, Rest], TESTBED),
    ("tb-set-oml-server", &[Node], TESTBED),
    ("tb-set-oml-use-control", &[Word], TESTBED),
    ("tb-set-packing-strategy", &[Word], MACHINES),
    ("tb-set-security-level", &[OneOf(&["Green", "Blue", "Yellow", "Orange"])], "there are no firewalls here"),
    ("tb-set-switch-fabric", &[Net, Word], MACHINES),
    ("tb-set-tarfiles", &[Tarfiles], FILES),
    ("tb-set-use-oml", &[Rest], TESTBED),
    ("tb-set-uselatestwadata", &[Switch], TESTBED),
    ("tb-set-useveth", &[Net, Word], SHAPING),
    ("tb-set-usewatunnels", &[Switch], TESTBED),
    ("tb-set-vlink-emulation", &[OneOf(&["gre", "egre", "vtun", "veth-ne", "vlan", "alias"])], SHAPING),
    ("tb-set-wasolver-weights", &[Number(0.0, f64::MAX), Number(0.0, f64::MAX), Number(0.0, f64::MAX)], TESTBED),
    ("tb-unset-elabinelab-attribute", &[Word], TESTBED),
    ("tb-unset-elabinelab-role-attribute", &[OneOf(ROLES), Word], TESTBED),
    ("tb-use-endnodeshaping", &[Switch], SHAPING),
    ("tb-use-ipassign", &[Truth], ADDRESSES),
    ("tb-use-modelnet", &[Truth], SHAPING),
    ("tb-use-physnaming", &[Word], MACHINES),
    ("tbx-log", &[Word], TESTBED),
];
pub(super) const MACHINES: &str = "every host is a part of this machine";
const SHAPING: &str = "every link is shaped in the same place here";
const TESTBED: &str = "it is about the testbed itself";
const FILES: &str = "the hosts share this machine's files";
const ADDRESSES: &str = "addresses are chosen here";

/// True if a command is one of them.
pub(super) fn knows(name: &str) -> bool {
    IDLE.iter().any(|(idle, ..)| *idle == name)
}

/// Checks a command's arguments, and notes that it has no effect.
pub(super) fn run(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    let name = words[0].as_str().trim_start_matches("::");
    let Some((_, kinds, why)) = IDLE.iter().find(|(idle, ..)| *idle == name) else { return Ok(TclValue::default()) };
    let needed = kinds.iter().take_while(|kind| !matches!(kind, Optional | Rest)).count();
    let is_open = kinds.iter().any(|kind| matches!(kind, Rest | Tarfiles));
    let most = if is_open { usize::MAX } else { kinds.iter().filter(|kind| !matches!(kind, Optional)).count() };
    if !(needed..=most).contains(&(words.len() - 1)) {
        let more = if most > needed { " or more" } else { "" };
        return fail(format!("wrong # args: {name} takes {needed}{more}, not {}", words.len() - 1));
    }
    let checked = kinds.iter().filter(|kind| !matches!(kind, Optional | Rest | Tarfiles));
    for (kind, word) in checked.zip(&words[1..]) {
        check(interp, name, *kind, word)?;
    }
    if kinds.iter().any(|kind| matches!(kind, Tarfiles)) {
        tarfiles(interp, name, &words[kinds.len()..])?;
    }
    if name == "tb-set-security-level" {
        interp.world.security_level = words[1].as_str() != "Green";
    }
    interp.ignored(format!("{name}: {why}"));
    Ok(TclValue::default())
}

fn check(interp: &mut TclInterpreter, name: &str, kind: Argument, word: &TclValue) -> Result<(), TclCompletion> {
    let text = word.as_str();
    let refuse = |wanted: &str| Err(TclCompletion::refuse(format!("{name} takes {wanted}, not \"{}\"", short(text))));
    let number = || number::read(text.trim()).map(|number| number.double());
    match kind {
        Node => interp.node_named(word).map(|_| ()),
        Net => interp.net_named(word).map(|_| ()),
        Lan => interp.lan_named(word).map(|_| ()),
        Link => interp.link_named(word).map(|_| ()),
        Object => interp.object_named(word).map(|_| ()),
        Host => {
            let id = interp.object_named(word)?;
            let fits = matches!(interp.world.object(id).kind, NsObjectKind::Node(_) | NsObjectKind::Blockstore(_));
            interp.expect(id, fits, "node").map(|_| ())
        }
        NetOr(others) if !others.contains(&text) => interp.net_named(word).map(|_| ()),
        OneOf(words) if !words.contains(&text) => refuse(&words.join(", ")),
        Number(least, most) if !number().is_some_and(|it| (least..=most).contains(&it)) => match most < f64::MAX {
            true => refuse(&format!("a number from {least} to {most}")),
            false => refuse(if least > 0.0 { "a number above 0" } else { "a number from 0 on" }),
        },
        Switch if !matches!(text, "0" | "1") => refuse("0 or 1"),
        Truth if number().is_none() && !TRUTHS.contains(&text.to_lowercase().as_str()) => refuse("a truth value"),
        Rate => interp.read_rate(text).map(|_| ()),
        _ => Ok(()),
    }
}

/// Words that Tcl takes for true or false.
const TRUTHS: [&str; 6] = ["true", "false", "yes", "no", "on", "off"];

/// A single argument may hold all the words. Like Emulab without reading the archives, this checks only the first
/// folder.
fn tarfiles(interp: &mut TclInterpreter, name: &str, words: &[TclValue]) -> Result<(), TclCompletion> {
    let words: Vec<&str> = match words {
        [one] => one.as_str().split(' ').collect(),
        more => more.iter().map(TclValue::as_str).collect(),
    };
    interp.spend(words.len())?;
    match words.first() {
        None => fail(format!("{name} has no folder and archive")),
        _ if !words.len().is_multiple_of(2) => {
            Err(TclCompletion::refuse(format!("{name} takes pairs of a folder and an archive, and one is left over")))
        }
        Some(folder) if SHARED.iter().any(|shared| folder.starts_with(shared)) => Err(TclCompletion::refuse(format!(
            "\"{}\" of {name} is shared by all nodes, not a node's own",
            short(folder)
        ))),
        Some(folder) if !folder.starts_with('/') => {
            Err(TclCompletion::refuse(format!("\"{}\" of {name} is no absolute folder", short(folder))))
        }
        Some(_) => Ok(()),
    }
}

/// A `tb-` command with a similar name.
pub(crate) fn similar(name: &str) -> Option<&'static str> {
    let rest = name.strip_prefix("tb-").filter(|_| name.len() <= 60)?;
    let known = super::EFFECTIVE.iter().map(|(known, _)| *known).chain(IDLE.iter().map(|(idle, ..)| *idle));
    let known: Vec<&'static str> = known.collect();
    let near = suggest::nearest(rest, known.iter().filter_map(|known| known.strip_prefix("tb-")))?;
    known.into_iter().find(|known| known.strip_prefix("tb-") == Some(near))
}
