//! Methods that every object has: `$object method argument…`.

use super::state::{NsObject, NsObjectId, NsObjectKind, NsQueue};
use super::tcl::completion::{TclCompletion, TclResult, fail};
use super::tcl::interp::TclInterpreter;
use super::tcl::value::TclValue;
use super::tcl::{number, short};

impl NsObject {
    /// The name of its class in Emulab.
    pub(crate) fn class(&self) -> &str {
        match &self.kind {
            NsObjectKind::Simulator => "Simulator",
            NsObjectKind::Node(node) if node.bridge => "Bridge",
            NsObjectKind::Node(_) => "Node",
            NsObjectKind::Net(net) if net.lan => "Lan",
            NsObjectKind::Net(_) => "Link",
            NsObjectKind::Queue(_) => "Queue",
            NsObjectKind::Side { .. } => "SimplexLink",
            NsObjectKind::Program => "Program",
            NsObjectKind::Group(_) => "EventGroup",
            NsObjectKind::Sequence(_) => "EventSequence",
            NsObjectKind::Timeline(_) => "EventTimeline",
            NsObjectKind::Agent(agent) => &agent.class,
            NsObjectKind::Application(application) => &application.class,
            NsObjectKind::Blockstore(_) => "Blockstore",
            NsObjectKind::Firewall(_) => "Firewall",
            NsObjectKind::Topography { .. } => "Topography",
            NsObjectKind::Ineffective(class) => class,
            NsObjectKind::Null(_) => "NullClass",
        }
    }

    /// True if it is of `class` or of a class derived from it.
    fn is_a(&self, class: &str) -> bool {
        let own = self.class();
        let family = match &self.kind {
            NsObjectKind::Node(_) => class == "Node",
            NsObjectKind::Net(_) => class == "LanLink",
            NsObjectKind::Agent(_) => class == "Agent",
            NsObjectKind::Application(_) => class == "Application",
            _ => false,
        };
        own == class
            || family
            || own.strip_prefix(class).is_some_and(|rest| rest.starts_with('/'))
            || class == "NSObject"
    }
}

impl TclInterpreter {
    pub(crate) fn call_object(&mut self, id: NsObjectId, words: &[TclValue]) -> TclResult {
        let [_, method, arguments @ ..] = words else {
            return fail(format!("wrong # args: \"{}\" is an object: say what it should do", self.world.name(id)));
        };
        match method.as_str() {
            "set" => return self.object_variable(id, arguments),
            "unset" => {
                for name in arguments {
                    self.world.object_mut(id).variables.remove(name.as_str());
                }
                return Ok(TclValue::default());
            }
            "info" => return self.object_info(id, arguments),
            _ => {}
        }
        match &self.world.object(id).kind {
            NsObjectKind::Simulator => {
                self.assigns(method.as_str());
                self.simulator(method.as_str(), arguments)
            }
            NsObjectKind::Node(_) => self.node_method(id, method.as_str(), arguments),
            NsObjectKind::Net(_) => self.net_method(id, method.as_str(), arguments),
            NsObjectKind::Side { queue, .. } if method.as_str() == "queue" => {
                Ok(TclValue::from(self.world.name(*queue)))
            }
            NsObjectKind::Group(_) => self.group_method(id, method.as_str(), arguments),
            NsObjectKind::Sequence(_) => self.sequence_method(id, method.as_str(), arguments),
            NsObjectKind::Timeline(_) => self.timeline_method(id, method.as_str(), arguments),
            NsObjectKind::Agent(_) => self.agent_method(id, method.as_str(), arguments),
            NsObjectKind::Application(_) => self.application_method(id, method.as_str(), arguments),
            NsObjectKind::Blockstore(_) => self.blockstore_method(id, method.as_str(), arguments),
            NsObjectKind::Firewall(_) => self.firewall_method(id, method.as_str(), arguments),
            NsObjectKind::Topography { .. } => self.topography_method(id, method.as_str(), arguments),
            NsObjectKind::Queue(_) | NsObjectKind::Ineffective(_) => {
                self.ignored(format!(
                    "\"{}\" of a {} has no effect here",
                    short(method.as_str()),
                    self.world.object(id).class()
                ));
                Ok(TclValue::default())
            }
            NsObjectKind::Program | NsObjectKind::Side { .. } | NsObjectKind::Null(_) => {
                Ok(self.unknown_method(id, method.as_str()))
            }
        }
    }

    /// Warns about an unknown method and goes on, as Emulab's classes do.
    pub(crate) fn unknown_method(&mut self, id: NsObjectId, method: &str) -> TclValue {
        let object = self.world.object(id);
        let text = format!(
            "\"{}\" is nothing that a {} such as \"{}\" can do: left out",
            short(method),
            object.class(),
            object.name
        );
        self.warn(text);
        TclValue::default()
    }

    /// `$object set name ?value?`.
    fn object_variable(&mut self, id: NsObjectId, arguments: &[TclValue]) -> TclResult {
        let object = self.world.object(id);
        match arguments {
            [name] => {
                let known =
                    object.variables.get(name.as_str()).cloned().or_else(|| self.default_variable(id, name.as_str()));
                known.map_or_else(|| fail(format!("can't read \"{}\": no such variable", short(name.as_str()))), Ok)
            }
            [name, value] => {
                self.spend(value.len() / 64)?;
                self.check_variable(id, name.as_str(), value.as_str())?;
                if self.world.object_mut(id).variables.insert(name.as_str().to_owned(), value.clone()).is_none() {
                    self.stored += 1;
                }
                match self.stored > self.limits.variables {
                    true => {
                        Err(TclCompletion::refuse(format!("there are more than {} variables", self.limits.variables)))
                    }
                    false => Ok(value.clone()),
                }
            }
            _ => fail("wrong # args: should be \"$object set varName ?newValue?\""),
        }
    }

    /// Variables that Emulab's classes set initially and files read.
    fn default_variable(&self, id: NsObjectId, name: &str) -> Option<TclValue> {
        let object = self.world.object(id);
        let text = match (&object.kind, name) {
            (NsObjectKind::Queue(queue), _) => default_of_queue(queue, name)?,
            (NsObjectKind::Node(_), "type") => "pc",
            (NsObjectKind::Node(_), "osid" | "fixed" | "startup" | "cmdline" | "role" | "X_" | "Y_") => "",
            (NsObjectKind::Node(_), "simulated" | "isvirt" | "isremote") => "0",
            (NsObjectKind::Application(_), "packetSize_") => super::traffic::PACKET_BYTES,
            (NsObjectKind::Application(_), "rate_") => super::traffic::RATE,
            (NsObjectKind::Application(_), "interval_" | "iptos_") => "",
            (NsObjectKind::Program, "node" | "command" | "dir" | "timeout" | "expected-exit-code") => "",
            (NsObjectKind::Net(_), "netmask") => "255.255.255.0",
            (NsObjectKind::Node(_) | NsObjectKind::Net(_) | NsObjectKind::Program, "sim") => {
                return self
                    .world
                    .objects()
                    .find(|(_, other)| matches!(other.kind, NsObjectKind::Simulator))
                    .map(|(_, other)| other.name.as_str().into());
            }
            _ => return None,
        };
        Some(TclValue::from(text))
    }

    /// Refuses values that would fail later, while the line is known, and notes those without effect.
    fn check_variable(&mut self, id: NsObjectId, name: &str, value: &str) -> Result<(), TclCompletion> {
        let class = self.world.object(id).class().to_owned();
        let number = number::prefix(value).map(|(number, _)| number);
        let known = match (&self.world.object(id).kind, name) {
            (NsObjectKind::Queue(_), "limit_" | "thresh_" | "maxthresh_" | "linterm_" | "q_weight_") => {
                self.remark_queue_value(name, value);
                Some(number.is_some())
            }
            (NsObjectKind::Queue(_), "red_" | "gentle_" | "queue-in-bytes_") => {
                Some(matches!(value, "0" | "1" | "true" | "false"))
            }
            (NsObjectKind::Application(_), "packetSize_") => {
                Some(number.is_some_and(|bytes| (0.0..=65_535.0).contains(&bytes)))
            }
            (NsObjectKind::Application(_), "interval_") => {
                Some(value.is_empty() || number.is_some_and(|seconds| seconds >= 0.0))
            }
            (NsObjectKind::Application(_), "rate_") => {
                Some(matches!(value, "" | "0") || super::units::bandwidth(value).is_ok())
            }
            (NsObjectKind::Program, "node" | "command" | "dir" | "timeout" | "expected-exit-code") => Some(true),
            (NsObjectKind::Node(_), "type" | "osid") | (NsObjectKind::Application(_), "iptos_") => Some(true),
            _ => None,
        };
        match known {
            Some(true) => Ok(()),
            Some(false) => {
                Err(TclCompletion::refuse(format!("\"{}\" is no value for {name} of a {class}", short(value))))
            }
            None => {
                self.ignored(format!("\"set {}\" of a {class} has no effect here", short(name)));
                Ok(())
            }
        }
    }

    /// Emulab stores any value, but a queue here has to use it.
    pub(crate) fn remark_queue_value(&mut self, name: &str, value: &str) {
        if let (Some(read), Some(used)) = (number::prefix(value), super::units::queue_value(name, value))
            && (read.1 != value.len() || (read.0 - used).abs() > 0.0)
        {
            self.warn(format!("\"{}\" for {name} of a queue is taken for {used}", short(value)));
        }
    }

    fn object_info(&mut self, id: NsObjectId, arguments: &[TclValue]) -> TclResult {
        let object = self.world.object(id);
        match arguments {
            [what] if what.as_str() == "class" => Ok(TclValue::from(object.class())),
            [what, class] if what.as_str() == "class" => Ok(TclValue::from_bool(object.is_a(class.as_str()))),
            [what] if what.as_str() == "vars" => {
                Ok(TclValue::from_list(object.variables.keys().map(|name| TclValue::from(name.as_str())).collect()))
            }
            _ => fail("only \"info class\" and \"info vars\" of objects are understood here"),
        }
    }

    pub(crate) fn object_named(&self, word: &TclValue) -> Result<NsObjectId, TclCompletion> {
        match self.world.find(word.as_str()) {
            Some(id) => Ok(id),
            None => fail(format!("there is no object \"{}\"", short(word.as_str()))),
        }
    }

    pub(crate) fn node_named(&self, word: &TclValue) -> Result<NsObjectId, TclCompletion> {
        let id = self.object_named(word)?;
        self.expect(id, matches!(self.world.object(id).kind, NsObjectKind::Node(_)), "node")
    }

    /// The link or LAN that a word names.
    pub(crate) fn net_named(&self, word: &TclValue) -> Result<NsObjectId, TclCompletion> {
        let id = self.object_named(word)?;
        self.expect(id, matches!(self.world.object(id).kind, NsObjectKind::Net(_)), "link or LAN")
    }

    pub(crate) fn link_named(&self, word: &TclValue) -> Result<NsObjectId, TclCompletion> {
        let id = self.object_named(word)?;
        self.expect(id, self.world.net(id).is_some_and(|net| !net.lan), "link")
    }

    pub(crate) fn lan_named(&self, word: &TclValue) -> Result<NsObjectId, TclCompletion> {
        let id = self.object_named(word)?;
        self.expect(id, self.world.net(id).is_some_and(|net| net.lan), "LAN")
    }

    /// Refuses an object of the wrong kind.
    pub(crate) fn expect(&self, id: NsObjectId, is_it: bool, what: &str) -> Result<NsObjectId, TclCompletion> {
        let object = self.world.object(id);
        match (is_it, &object.kind) {
            (true, _) => Ok(id),
            (false, NsObjectKind::Null(made)) => Err(TclCompletion::refuse(format!(
                "\"{}\" is no {what}: it was made on line {} by \"{made}\", which nobody knows{}",
                object.name,
                object.line,
                super::traffic::meant(made)
            ))),
            (false, _) => {
                Err(TclCompletion::refuse(format!("\"{}\" is a {}, not a {what}", object.name, object.class())))
            }
        }
    }
}

/// A parameter of a queue that the file does not set: ns's default.
fn default_of_queue(queue: &NsQueue, name: &str) -> Option<&'static str> {
    Some(match name {
        "red_" if queue.red => "1",
        "gentle_" if queue.gentle => "1",
        "red_" | "gentle_" | "queue-in-bytes_" | "bytes_" | "setbit_" | "traced" => "0",
        "limit_" => "50",
        "maxthresh_" => "15",
        "thresh_" => "5",
        "q_weight_" => "0.002",
        "linterm_" => "10",
        "mean_pktsize_" => "500",
        "wait_" | "drop-tail_" => "1",
        _ => return None,
    })
}

/// Reads a method's `-name value` pairs; every name must be one of `names`.
pub(crate) fn named<'a>(arguments: &'a [TclValue], names: &[&str]) -> Result<Vec<(&'a str, &'a str)>, TclCompletion> {
    let mut pairs = Vec::new();
    for pair in arguments.chunks(2) {
        let name = pair[0].as_str();
        if !names.contains(&name) {
            return fail(format!("bad option \"{}\", should be one of: {}", short(name), names.join(" ")));
        }
        pairs.push((name, pair.get(1).map_or("", TclValue::as_str)));
    }
    Ok(pairs)
}

pub(crate) fn arity(arguments: &[TclValue], least: usize, most: usize, how: &str) -> Result<(), TclCompletion> {
    match (least..=most).contains(&arguments.len()) {
        true => Ok(()),
        false => fail(format!("wrong # args: should be \"{how}\"")),
    }
}
