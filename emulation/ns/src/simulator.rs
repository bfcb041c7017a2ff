//! `$ns`: nodes, links, LANs, events, and the network that they form.

use roost_topology::model::{MAX_EVENTS, MAX_LAB_HOSTS};

use super::methods::arity;
use super::state::{NsNode, NsObjectKind};
use super::tcl::completion::{TclCompletion, TclResult};
use super::tcl::interp::TclInterpreter;
use super::tcl::short;
use super::tcl::value::TclValue;
use super::units;

impl TclInterpreter {
    pub(crate) fn simulator(&mut self, method: &str, arguments: &[TclValue]) -> TclResult {
        match method {
            "node" => {
                self.extra(arguments, 0, "node");
                self.make_node(NsNode::default())
            }
            "duplex-link" => self.duplex_link(arguments),
            "make-lan" => self.make_lan(arguments),
            "bridge" | "make-san" | "make-cloud" | "make-portinvlan" | "make-path" => {
                self.make_special(method, arguments)
            }
            "blockstore" => self.make_blockstore(),
            "link" => self.link_side(arguments),
            "lanlink" => self.lan_side(arguments),
            "cost" => self.side_cost(arguments),
            "attach-agent" => self.attach_agent(arguments),
            "connect" => self.connect(arguments),
            "at" => self.at(arguments),
            "event-sequence" => self.event_sequence(arguments),
            "event-timeline" => self.event_timeline(),
            "event-group" => self.event_group(arguments),
            "rtproto" => self.rtproto(arguments),
            "node-config" => self.node_config(arguments),
            "define-template-parameter" => self.template_parameter(arguments),
            "make-simulated" => self.make_simulated(arguments),
            "run" => {
                arity(arguments, 0, 0, "$ns run")?;
                self.finish()
            }
            other => self.unknown_of_simulator(other),
        }
    }

    /// Makes rare objects: special LANs, and things that are plain hosts here.
    fn make_special(&mut self, method: &str, arguments: &[TclValue]) -> TclResult {
        match method {
            "bridge" => {
                self.warn("a bridge is a host like any other here: it does not join its links");
                self.make_node(NsNode { bridge: true, ..NsNode::default() })
            }
            "make-san" => {
                arity(arguments, 1, 1, "$ns make-san nodes")?;
                self.make_lan(&[arguments[0].clone(), TclValue::from("~"), TclValue::from("0ms")])
            }
            "make-portinvlan" => {
                arity(arguments, 2, 2, "$ns make-portinvlan node token")?;
                self.ignored("the token of make-portinvlan has no effect here");
                self.make_lan(&[arguments[0].clone(), TclValue::from("*"), TclValue::from("0ms")])
            }
            "make-cloud" => {
                let name = self.make_lan(arguments)?;
                let id = self.net_named(&name)?;
                if let Some(net) = self.world.net_mut(id) {
                    net.cloud = true;
                }
                Ok(name)
            }
            _ => self.make_ineffective("tbpath-path", "Path", "paths are Emulab's business"),
        }
    }

    /// Warns about extra arguments and goes on, as Emulab does.
    pub(crate) fn extra(&mut self, arguments: &[TclValue], expected: usize, method: &str) {
        if let Some(more) = arguments.get(expected) {
            self.warn(format!(
                "\"{}\" and what follows it means nothing to \"{method}\": left out",
                short(more.as_str())
            ));
        }
    }

    fn unknown_of_simulator(&mut self, method: &str) -> TclResult {
        self.warn(format!("\"$ns {}\" is not known: left out", short(method)));
        let name = format!("tbnull-null{}", self.world.next_made());
        self.world.add(name.clone(), self.line, NsObjectKind::Null(format!("$ns {}", short(method))))?;
        Ok(TclValue::from(name))
    }

    pub(crate) fn make_ineffective(&mut self, prefix: &str, class: &'static str, why: &str) -> TclResult {
        self.ignored(format!("{why}: no effect here"));
        let name = format!("{prefix}{}", self.world.next_made());
        let id = self.world.add(name.clone(), self.line, NsObjectKind::Ineffective(class))?;
        self.world.expect_name(id);
        Ok(TclValue::from(name))
    }

    pub(crate) fn make_node(&mut self, node: NsNode) -> TclResult {
        self.world.nodes += 1;
        if self.world.nodes > MAX_LAB_HOSTS {
            return Err(TclCompletion::refuse(format!("there are more than {MAX_LAB_HOSTS} nodes")));
        }
        let name = format!("tbnode-n{}", self.world.next_made());
        let id = self.world.add(name.clone(), self.line, NsObjectKind::Node(node))?;
        if self.world.simulated {
            self.world.object_mut(id).variables.insert("type".to_owned(), TclValue::from("sim"));
        }
        self.world.expect_name(id);
        if let Some(topography) = self.world.topography.clone() {
            self.place_node(id, &topography)?;
        }
        Ok(TclValue::from(name))
    }

    fn at(&mut self, arguments: &[TclValue]) -> TclResult {
        arity(arguments, 2, 2, "$ns at time \"object event\"")?;
        if self.world.simulated {
            return Ok(TclValue::default());
        }
        let text = arguments[0].as_str();
        let time = match text {
            "swapout" => {
                self.warn("events \"at swapout\" are never reached here, but are listed at 0");
                std::time::Duration::ZERO
            }
            _ => self.read_time(text)?,
        };
        for mut made in self.make_events(arguments[1].as_str())? {
            if text == "swapout" {
                made.effects.clear();
            }
            self.world.schedule.push((time, made));
        }
        self.check_events()
    }

    pub(crate) fn read_time(&mut self, text: &str) -> Result<std::time::Duration, TclCompletion> {
        let time = units::time(text).map_err(TclCompletion::refuse)?;
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        self.assigned(if is_number { &["retval"] } else { &["hours", "mins", "secs", "retval"] });
        Ok(time)
    }

    /// Refuses more events than a topology may have.
    pub(crate) fn check_events(&mut self) -> TclResult {
        match self.world.schedule.len() > MAX_EVENTS {
            true => Err(TclCompletion::refuse(format!("there are more than {MAX_EVENTS} events"))),
            false => Ok(TclValue::default()),
        }
    }

    fn rtproto(&mut self, arguments: &[TclValue]) -> TclResult {
        arity(arguments, 1, usize::MAX, "$ns rtproto Static")?;
        self.extra(arguments, 1, "rtproto");
        self.assigned(&["default_ip_routing_type"]);
        let routing = match arguments[0].as_str() {
            "Session" | "ospf" => "ospf",
            "Manual" => "manual",
            "Static" => "static",
            "Static-ddijk" => "static-ddijk",
            "Static-old" => "static-old",
            other => {
                self.warn(format!(
                    "\"{}\" is no routing that Emulab knows (Static, Session, Manual): left out",
                    short(other)
                ));
                return Ok(TclValue::default());
            }
        };
        if !self.world.simulated {
            self.world.routing = Some(routing.to_owned());
            self.world.routing_line = self.line;
        }
        Ok(TclValue::default())
    }

    fn template_parameter(&mut self, arguments: &[TclValue]) -> TclResult {
        arity(arguments, 2, 3, "$ns define-template-parameter name value ?description?")?;
        self.set(arguments[0].as_str(), arguments[1].clone())?;
        Ok(TclValue::from("0"))
    }

    /// Nodes that ns would simulate are ordinary hosts here.
    fn make_simulated(&mut self, arguments: &[TclValue]) -> TclResult {
        arity(arguments, 1, 1, "$ns make-simulated {script}")?;
        self.warn("what \"make-simulated\" holds is emulated like everything else here");
        let outer = std::mem::replace(&mut self.world.simulated, true);
        let outcome = self.eval(&arguments[0]);
        self.world.simulated = outer;
        outcome
    }

    fn finish(&mut self) -> TclResult {
        if self.world.finished.is_some() {
            return Err(TclCompletion::refuse("\"$ns run\" may stand only once"));
        }
        self.finish_blockstores()?;
        if std::mem::take(&mut self.world.security_level) {
            // Emulab puts a firewall before experiments of a higher security level.
            let firewall = self.new_firewall()?;
            let here = std::mem::replace(&mut self.current, 0);
            let named = self.name_object("fw", &firewall);
            self.current = here;
            named?;
        }
        self.world.finished = Some(super::build::build(self)?);
        Ok(TclValue::default())
    }
}
