//! The `tb-` commands: Emulab's additions to ns.

mod ineffective;

use super::methods::arity;
use super::state::{NsMember, NsObjectId, NsObjectKind};
use super::tcl::completion::{TclCompletion, TclResult, fail};
use super::tcl::interp::TclInterpreter;
use super::tcl::value::TclValue;
use super::tcl::{Builtin, short};
use super::units;

/// The commands that have an effect, and `new`.
const EFFECTIVE: [(&str, Builtin); 23] = [
    ("new", super::classes::new),
    ("tb-make-hard-vtype", |interp, words| make_vtype(interp, words, 2)),
    ("tb-make-soft-vtype", |interp, words| make_vtype(interp, words, 2)),
    ("tb-make-weighted-vtype", |interp, words| make_vtype(interp, words, 3)),
    ("tb-set-hardware", tb_set_hardware),
    ("tb-set-ip", |interp, words| set_ip(interp, words, InterfaceChoice::Only)),
    ("tb-set-ip-interface", |interp, words| set_ip(interp, words, InterfaceChoice::To)),
    ("tb-set-ip-lan", |interp, words| set_ip(interp, words, InterfaceChoice::Lan)),
    ("tb-set-ip-link", |interp, words| set_ip(interp, words, InterfaceChoice::Link)),
    ("tb-set-ip-routing", tb_set_ip_routing),
    ("tb-set-lan-loss", tb_set_lan_loss),
    ("tb-set-lan-simplex-params", tb_set_lan_simplex_params),
    ("tb-set-link-loss", tb_set_link_loss),
    ("tb-set-link-simplex-params", tb_set_link_simplex_params),
    ("tb-set-netmask", tb_set_netmask),
    ("tb-set-node-lan-bandwidth", |interp, words| tb_set_node_lan(interp, words, LegSetting::Bandwidth)),
    ("tb-set-node-lan-delay", |interp, words| tb_set_node_lan(interp, words, LegSetting::Delay)),
    ("tb-set-node-lan-loss", |interp, words| tb_set_node_lan(interp, words, LegSetting::Loss)),
    ("tb-set-node-lan-params", tb_set_node_lan_params),
    ("tb-set-node-os", tb_set_node_os),
    ("tb-set-node-startcmd", tb_set_node_startcmd),
    ("tb-set-security-level", tb_set_security_level),
    ("tb-set-sync-server", tb_set_sync_server),
];

pub(crate) fn find(name: &str) -> Option<Builtin> {
    match EFFECTIVE.iter().find(|(known, _)| *known == name) {
        Some((_, command)) => Some(*command),
        None if ineffective::knows(name) => Some(ineffective::run),
        None if super::traffic::is_class(name) || CLASSES.contains(&name) => Some(class_command),
        None => None,
    }
}

/// The selector of one of a node's interfaces.
#[derive(Clone, Copy)]
enum InterfaceChoice {
    Only,
    /// The interface of the link to another node.
    To,
    Link,
    Lan,
}

#[derive(Clone, Copy)]
enum LegSetting {
    Delay,
    Bandwidth,
    Loss,
}

pub(crate) use ineffective::similar;

/// Classes are commands too: `Agent/TCP set window_ 100` sets a default.
const CLASSES: [&str; 6] = ["Simulator", "Node", "Queue", "Agent", "Application", "Program"];

fn class_command(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    match words {
        [class, method, name, value] if method.as_str() == "set" => {
            interp.ignored(format!("\"{} set {}\" has no effect here", class.as_str(), short(name.as_str())));
            Ok(value.clone())
        }
        _ => fail(format!("only \"{} set name value\" of a class is understood here", words[0].as_str())),
    }
}

fn tb_set_node_os(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    arity(&words[1..], 2, 3, "tb-set-node-os node os")?;
    let node = interp.node_named(&words[1])?;
    interp.spend(words[2].len() / 64)?;
    interp.world.object_mut(node).variables.insert("osid".to_owned(), words[2].clone());
    interp.ignored("tb-set-node-os: every host runs this machine's system");
    Ok(TclValue::default())
}

fn tb_set_hardware(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    arity(&words[1..], 2, usize::MAX, "tb-set-hardware node type")?;
    let node = interp.node_named(&words[1])?;
    interp.spend(words[2].len() / 64)?;
    interp.world.object_mut(node).variables.insert("type".to_owned(), words[2].clone());
    interp.ignored(format!("tb-set-hardware: {}", ineffective::MACHINES));
    Ok(TclValue::default())
}

fn tb_set_security_level(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    arity(&words[1..], 1, 1, "tb-set-security-level level")?;
    let level = words[1].as_str();
    if !["Green", "Blue", "Yellow", "Orange"].contains(&level) {
        let level = short(level);
        let message = format!("tb-set-security-level takes Green, Blue, Yellow, Orange, not \"{level}\"");
        return Err(TclCompletion::refuse(message));
    }
    interp.world.security_level = level != "Green";
    interp.ignored("tb-set-security-level: there are no firewalls here");
    Ok(TclValue::default())
}

fn tb_set_node_startcmd(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    arity(&words[1..], 2, 2, "tb-set-node-startcmd node command")?;
    let node = interp.node_named(&words[1])?;
    interp.reported_command(node, words[2].as_str())
}

fn tb_set_sync_server(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    arity(&words[1..], 1, 1, "tb-set-sync-server node")?;
    interp.world.sync_server = Some(interp.node_named(&words[1])?);
    Ok(TclValue::default())
}

fn tb_set_ip_routing(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    arity(&words[1..], 1, 1, "tb-set-ip-routing none|ospf")?;
    interp.world.routing = match words[1].as_str() {
        "none" => None,
        "ospf" => Some("ospf".to_owned()),
        other => return Err(TclCompletion::refuse(format!("\"{}\" is no routing: write none or ospf", short(other)))),
    };
    Ok(TclValue::default())
}

fn set_ip(interp: &mut TclInterpreter, words: &[TclValue], place: InterfaceChoice) -> TclResult {
    let arguments = &words[1..];
    let count = if matches!(place, InterfaceChoice::Only) { 2 } else { 3 };
    arity(arguments, count, count, "tb-set-ip… node ?net? address")?;
    let node = interp.node_named(&arguments[0])?;
    let net = match place {
        InterfaceChoice::To => {
            let other = interp.node_named(&arguments[1])?;
            interp.link_between(node, other)?
        }
        InterfaceChoice::Link => interp.link_named(&arguments[1])?,
        InterfaceChoice::Lan => interp.lan_named(&arguments[1])?,
        InterfaceChoice::Only => match interp.world.node(node).map_or(&[][..], |node| &node.ports) {
            [(net, _)] => *net,
            ports => {
                return Err(TclCompletion::refuse(format!(
                    "\"{}\" has {} interfaces: say which, with tb-set-ip-link, -lan or -interface",
                    arguments[0].as_str(),
                    ports.len()
                )));
            }
        },
    };
    let address = units::address(arguments[arguments.len() - 1].as_str()).map_err(TclCompletion::refuse)?;
    change_members(interp, net, Some(node), |member| member.address = Some(address))
}

fn tb_set_netmask(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    arity(&words[1..], 2, 2, "tb-set-netmask net netmask")?;
    let id = interp.net_named(&words[1])?;
    let prefix = units::netmask(words[2].as_str()).map_err(TclCompletion::refuse)?;
    if let Some(net) = interp.world.net_mut(id) {
        net.prefix = prefix;
    }
    Ok(TclValue::default())
}

/// The loss end to end, of a link or of every pair of a LAN's members. Emulab ignores further words; if there
/// are two words, they are a node and the loss.
fn tb_set_link_loss(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    arity(&words[1..], 2, usize::MAX, "tb-set-link-loss link loss")?;
    let (net, loss) = match &words[1..] {
        [a, b, loss] => {
            let (a, b) = (interp.node_named(a)?, interp.node_named(b)?);
            interp.assigned(&["dst", "sim"]);
            (interp.link_between(a, b)?, loss)
        }
        [net, loss, rest @ ..] => {
            if let Some(more) = rest.first() {
                interp.warn(format!("\"{}\" and what follows it is no loss: left out", short(more.as_str())));
            }
            (interp.net_named(net)?, loss)
        }
        _ => return Ok(TclValue::default()),
    };
    set_loss(interp, net, loss)
}

fn tb_set_lan_loss(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    arity(&words[1..], 2, 2, "tb-set-lan-loss lan loss")?;
    let lan = interp.lan_named(&words[1])?;
    set_loss(interp, lan, &words[2])
}

fn set_loss(interp: &mut TclInterpreter, net: NsObjectId, loss: &TclValue) -> TclResult {
    let loss = units::half_loss(units::loss(loss.as_str()).map_err(TclCompletion::refuse)?);
    change_members(interp, net, None, |member| (member.to_net.loss, member.from_net.loss) = (loss, loss))
}

/// From one end of a link to the other: each leg gets half.
fn tb_set_link_simplex_params(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    arity(&words[1..], 5, 5, "tb-set-link-simplex-params link source delay bandwidth loss")?;
    let (link, source) = (interp.link_named(&words[1])?, interp.node_named(&words[2])?);
    let from = interp.member(link, source)?;
    let loss = units::half_loss(units::loss(words[5].as_str()).map_err(TclCompletion::refuse)?);
    let delay = interp.read_delay(words[3].as_str())? / 2;
    let kbps = interp.read_rate(words[4].as_str())?;
    if let Some(net) = interp.world.net_mut(link) {
        for (at, member) in net.members.iter_mut().enumerate() {
            let shape = if at == from { &mut member.to_net } else { &mut member.from_net };
            (shape.delay, shape.kbps, shape.loss) = (delay, kbps, loss);
        }
    }
    Ok(TclValue::default())
}

/// A member's legs of a LAN, each with the values given.
fn tb_set_lan_simplex_params(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    arity(&words[1..], 8, 8, "tb-set-lan-simplex-params lan node todelay tobw toloss fromdelay frombw fromloss")?;
    let (lan, node) = (interp.lan_named(&words[1])?, interp.node_named(&words[2])?);
    let mut shapes = Vec::new();
    for three in words[3..].chunks(3) {
        let delay = interp.read_delay(three[0].as_str())?;
        let kbps = interp.read_rate(three[1].as_str())?;
        let loss = units::loss(three[2].as_str()).map_err(TclCompletion::refuse)?;
        shapes.push((delay, kbps, loss));
    }
    change_members(interp, lan, Some(node), |member| {
        for (shape, (delay, kbps, loss)) in [&mut member.to_net, &mut member.from_net].into_iter().zip(&shapes) {
            (shape.delay, shape.kbps, shape.loss) = (*delay, *kbps, *loss);
        }
    })
}

/// Both legs of one member: the delay and the loss are not halved.
fn tb_set_node_lan(interp: &mut TclInterpreter, words: &[TclValue], part: LegSetting) -> TclResult {
    arity(&words[1..], 3, 3, "tb-set-node-lan-delay|-bandwidth|-loss node lan value")?;
    set_leg(interp, &words[1], &words[2], part, words[3].as_str())
}

fn tb_set_node_lan_params(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    arity(&words[1..], 5, 5, "tb-set-node-lan-params node lan delay bandwidth loss")?;
    for (part, value) in [LegSetting::Delay, LegSetting::Bandwidth, LegSetting::Loss].into_iter().zip(&words[3..]) {
        set_leg(interp, &words[1], &words[2], part, value.as_str())?;
    }
    Ok(TclValue::default())
}

fn set_leg(interp: &mut TclInterpreter, node: &TclValue, lan: &TclValue, part: LegSetting, text: &str) -> TclResult {
    let (node, lan) = (interp.node_named(node)?, interp.lan_named(lan)?);
    match part {
        LegSetting::Delay => {
            let delay = interp.read_delay(text)?;
            change_members(interp, lan, Some(node), |member| {
                (member.to_net.delay, member.from_net.delay) = (delay, delay)
            })
        }
        LegSetting::Bandwidth => {
            let kbps = interp.read_rate(text)?;
            change_members(interp, lan, Some(node), |member| (member.to_net.kbps, member.from_net.kbps) = (kbps, kbps))
        }
        LegSetting::Loss => {
            let loss = units::loss(text).map_err(TclCompletion::refuse)?;
            change_members(interp, lan, Some(node), |member| (member.to_net.loss, member.from_net.loss) = (loss, loss))
        }
    }
}

/// Changes one member of a net, or all of them.
fn change_members(
    interp: &mut TclInterpreter,
    net: NsObjectId,
    node: Option<NsObjectId>,
    mut change: impl FnMut(&mut NsMember),
) -> TclResult {
    let only = node.map(|node| interp.member(net, node)).transpose()?;
    if let Some(net) = interp.world.net_mut(net) {
        let members = net.members.iter_mut().enumerate();
        members.filter(|(at, _)| only.is_none_or(|only| only == *at)).for_each(|(_, member)| change(member));
    }
    Ok(TclValue::default())
}

/// A hardware type that the file defines: an object like others.
fn make_vtype(interp: &mut TclInterpreter, words: &[TclValue], count: usize) -> TclResult {
    arity(&words[1..], count, count, "tb-make-soft-vtype name types")?;
    interp.ignored(format!("{}: {}", words[0].as_str(), ineffective::MACHINES));
    let name = words[1].as_str();
    if name.len() > 255 || super::tcl::is_command(name) || find(name).is_some() || interp.procedures.contains_key(name)
    {
        return fail(format!("\"{}\" is too long, or the name of a command", short(name)));
    }
    interp.world.add(name.to_owned(), interp.line, NsObjectKind::Ineffective("Vtype"))?;
    Ok(words[1].clone())
}
