//! Firewalls, which are plain hosts here, and topographies, which are plain positions.

use std::collections::BTreeSet;

use super::methods::arity;
use super::state::{Firewall, NsObjectId, NsObjectKind};
use super::tcl::completion::{TclCompletion, TclResult};
use super::tcl::interp::TclInterpreter;
use super::tcl::short;
use super::tcl::value::TclValue;

/// The numbers that rules of a firewall may have.
const RULES: std::ops::Range<u32> = 100..50_000;

impl TclInterpreter {
    /// `new Firewall $ns`. Emulab lists a firewall as a node.
    pub(crate) fn new_firewall(&mut self) -> TclResult {
        if self.world.objects().any(|(_, object)| matches!(object.kind, NsObjectKind::Firewall(_))) {
            return Err(TclCompletion::refuse("there is a firewall already, and an experiment has one"));
        }
        if self.world.security_level {
            return Err(TclCompletion::refuse("a firewall and tb-set-security-level exclude each other"));
        }
        self.warn("there are no firewalls here: it is a host on no link");
        let firewall = Firewall { os: "FW-IPFW2", rules: BTreeSet::new(), is_child: false };
        self.add_new("Firewall", NsObjectKind::Firewall(firewall))
    }

    pub(crate) fn firewall_method(&mut self, id: NsObjectId, method: &str, arguments: &[TclValue]) -> TclResult {
        let words = match method {
            "set-type" | "set-style" | "add-rule" | "child-of" => 1,
            "add-numbered-rule" => 2,
            other => return Ok(self.unknown_method(id, other)),
        };
        arity(arguments, words, words, "$firewall set-type|set-style|add-rule|add-numbered-rule|child-of …")?;
        let text = arguments[0].as_str();
        let parent = if method == "child-of" { Some(self.object_named(&arguments[0])?) } else { None };
        let is_other = parent.is_some_and(|parent| parent != id);
        let NsObjectKind::Firewall(firewall) = &mut self.world.object_mut(id).kind else {
            return Ok(TclValue::default());
        };
        let fits = match method {
            "set-type" => match text {
                "ipfw" => firewall.set_os("FW-IPFW"),
                "ipfw2-vlan" => firewall.set_os("FW-IPFW2"),
                "iptables" | "iptables-vlan" => firewall.set_os("FW-IPTABLES"),
                _ => false,
            },
            "set-style" => matches!(text, "open" | "closed" | "basic" | "emulab"),
            "add-rule" => {
                let next = firewall.rules.last().map_or(RULES.start, |last| last + 1);
                firewall.rules.insert(next)
            }
            "add-numbered-rule" => {
                text.parse().is_ok_and(|number| RULES.contains(&number) && firewall.rules.insert(number))
            }
            _ => is_other && !std::mem::replace(&mut firewall.is_child, true),
        };
        match fits {
            true => Ok(TclValue::default()),
            false => Err(TclCompletion::refuse(format!("\"{}\" is nothing for {method} of a firewall", short(text)))),
        }
    }

    /// `$topography load_area name`, or `load_flatgrid width height`.
    pub(crate) fn topography_method(&mut self, id: NsObjectId, method: &str, arguments: &[TclValue]) -> TclResult {
        let words = match method {
            "load_area" => 1,
            "load_flatgrid" => 2,
            other => return Ok(self.unknown_method(id, other)),
        };
        arity(arguments, words, words, "$topography load_area name, or load_flatgrid width height")?;
        self.world.object_mut(id).kind = NsObjectKind::Topography { loaded: true };
        Ok(TclValue::default())
    }

    /// `$ns node-config -topography t`: the topography of later nodes.
    pub(crate) fn node_config(&mut self, arguments: &[TclValue]) -> TclResult {
        let given = super::methods::named(arguments, &["-topography"])?;
        let topography = given.last().map(|(_, name)| *name).filter(|name| !name.is_empty());
        self.world.topography = topography.map(TclValue::from);
        self.ignored("\"node-config\" has no effect here");
        Ok(TclValue::default())
    }

    /// Places a node on a topography; an empty name means none.
    pub(crate) fn place_node(&mut self, node: NsObjectId, topography: &TclValue) -> TclResult {
        let placed = !topography.is_empty();
        if placed {
            let id = self.object_named(topography)?;
            let NsObjectKind::Topography { loaded } = self.world.object(id).kind else {
                return Err(TclCompletion::refuse(format!("\"{}\" is no topography", short(topography.as_str()))));
            };
            if !loaded {
                return Err(TclCompletion::refuse(format!(
                    "the topography \"{}\" has no extent yet: use load_area",
                    short(topography.as_str())
                )));
            }
            self.ignored("hosts have no place here");
            // Emulab takes a node on a floor for a robot.
            let variables = &mut self.world.object_mut(node).variables;
            if variables.get("type").is_none_or(|kind| kind.as_str() == "pc") && !variables.contains_key("fixed") {
                variables.insert("type".to_owned(), TclValue::from("robot"));
            }
        }
        if let Some(node) = self.world.node_mut(node) {
            node.placed = placed;
        }
        Ok(TclValue::default())
    }
}

impl Firewall {
    fn set_os(&mut self, os: &'static str) -> bool {
        self.os = os;
        true
    }
}
