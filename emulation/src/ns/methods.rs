//! What any object can be asked: `$object method argument…`.

use super::tcl::flow::{Flow, Outcome, fail};
use super::tcl::interp::Interp;
use super::tcl::value::Value;
use super::tcl::{number, short};
use super::world::{Id, Kind, Object, QueueOf};

impl Object {
    /// The name of its class in Emulab.
    pub(crate) fn class(&self) -> &str {
        match &self.kind {
            Kind::Simulator => "Simulator",
            Kind::Node(node) if node.bridge => "Bridge",
            Kind::Node(_) => "Node",
            Kind::Net(net) if net.lan => "Lan",
            Kind::Net(_) => "Link",
            Kind::Queue(_) => "Queue",
            Kind::Side { .. } => "SimplexLink",
            Kind::Program => "Program",
            Kind::Group(_) => "EventGroup",
            Kind::Sequence(_) => "EventSequence",
            Kind::Timeline(_) => "EventTimeline",
            Kind::Agent(agent) => &agent.class,
            Kind::Application(application) => &application.class,
            Kind::Blockstore(_) => "Blockstore",
            Kind::Firewall(_) => "Firewall",
            Kind::Topography { .. } => "Topography",
            Kind::Idle(class) => class,
            Kind::Null(_) => "NullClass",
        }
    }

    /// Whether it is of `class`, or of one that is made of it.
    fn is_a(&self, class: &str) -> bool {
        let own = self.class();
        let family = match &self.kind {
            Kind::Node(_) => class == "Node",
            Kind::Net(_) => class == "LanLink",
            Kind::Agent(_) => class == "Agent",
            Kind::Application(_) => class == "Application",
            _ => false,
        };
        own == class
            || family
            || own.strip_prefix(class).is_some_and(|rest| rest.starts_with('/'))
            || class == "NSObject"
    }
}

impl Interp {
    /// Runs a method of an object.
    pub(crate) fn call_object(&mut self, id: Id, words: &[Value]) -> Outcome {
        let [_, method, arguments @ ..] = words else {
            return fail(format!("wrong # args: \"{}\" is an object: say what it should do", self.world.name(id)));
        };
        match method.as_str() {
            "set" => return self.object_variable(id, arguments),
            "unset" => {
                for name in arguments {
                    self.world.object_mut(id).variables.remove(name.as_str());
                }
                return Ok(Value::default());
            }
            "info" => return self.object_info(id, arguments),
            _ => {}
        }
        match &self.world.object(id).kind {
            Kind::Simulator => {
                self.assigns(method.as_str());
                self.simulator(method.as_str(), arguments)
            }
            Kind::Node(_) => self.node_method(id, method.as_str(), arguments),
            Kind::Net(_) => self.net_method(id, method.as_str(), arguments),
            Kind::Side { queue, .. } if method.as_str() == "queue" => Ok(Value::from(self.world.name(*queue))),
            Kind::Group(_) => self.group_method(id, method.as_str(), arguments),
            Kind::Sequence(_) => self.sequence_method(id, method.as_str(), arguments),
            Kind::Timeline(_) => self.timeline_method(id, method.as_str(), arguments),
            Kind::Agent(_) => self.agent_method(id, method.as_str(), arguments),
            Kind::Application(_) => self.application_method(id, method.as_str(), arguments),
            Kind::Blockstore(_) => self.blockstore_method(id, method.as_str(), arguments),
            Kind::Firewall(_) => self.firewall_method(id, method.as_str(), arguments),
            Kind::Topography { .. } => self.topography_method(id, method.as_str(), arguments),
            Kind::Queue(_) | Kind::Idle(_) => {
                self.ignored(format!(
                    "\"{}\" of a {} has no effect here",
                    short(method.as_str()),
                    self.world.object(id).class()
                ));
                Ok(Value::default())
            }
            Kind::Program | Kind::Side { .. } | Kind::Null(_) => Ok(self.unknown_method(id, method.as_str())),
        }
    }

    /// What Emulab's classes do with a method that they do not have: nothing, with a warning.
    pub(crate) fn unknown_method(&mut self, id: Id, method: &str) -> Value {
        let object = self.world.object(id);
        let text = format!(
            "\"{}\" is nothing that a {} such as \"{}\" can do: left out",
            short(method),
            object.class(),
            object.name
        );
        self.warn(text);
        Value::default()
    }

    /// `$object set name ?value?`.
    fn object_variable(&mut self, id: Id, arguments: &[Value]) -> Outcome {
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
                    true => Err(Flow::refuse(format!("there are more than {} variables", self.limits.variables))),
                    false => Ok(value.clone()),
                }
            }
            _ => fail("wrong # args: should be \"$object set varName ?newValue?\""),
        }
    }

    /// Variables that Emulab's classes start with and files read.
    fn default_variable(&self, id: Id, name: &str) -> Option<Value> {
        let object = self.world.object(id);
        let text = match (&object.kind, name) {
            (Kind::Queue(queue), _) => default_of_queue(queue, name)?,
            (Kind::Node(_), "type") => "pc",
            (Kind::Node(_), "osid" | "fixed" | "startup" | "cmdline" | "role" | "X_" | "Y_") => "",
            (Kind::Node(_), "simulated" | "isvirt" | "isremote") => "0",
            (Kind::Application(_), "packetSize_") => super::traffic::PACKET_BYTES,
            (Kind::Application(_), "rate_") => super::traffic::RATE,
            (Kind::Application(_), "interval_" | "iptos_") => "",
            (Kind::Program, "node" | "command" | "dir" | "timeout" | "expected-exit-code") => "",
            (Kind::Net(_), "netmask") => "255.255.255.0",
            (Kind::Node(_) | Kind::Net(_) | Kind::Program, "sim") => {
                return self
                    .world
                    .objects()
                    .find(|(_, other)| matches!(other.kind, Kind::Simulator))
                    .map(|(_, other)| other.name.as_str().into());
            }
            _ => return None,
        };
        Some(Value::from(text))
    }

    /// Refuses what would make no sense later, while the line is known, and
    /// remarks what has no effect.
    fn check_variable(&mut self, id: Id, name: &str, value: &str) -> Result<(), Flow> {
        let class = self.world.object(id).class().to_owned();
        let number = number::prefix(value).map(|(number, _)| number);
        let known = match (&self.world.object(id).kind, name) {
            (Kind::Queue(_), "limit_" | "thresh_" | "maxthresh_" | "linterm_" | "q_weight_") => {
                self.remark_queue_value(name, value);
                Some(number.is_some())
            }
            (Kind::Queue(_), "red_" | "gentle_" | "queue-in-bytes_") => {
                Some(matches!(value, "0" | "1" | "true" | "false"))
            }
            (Kind::Application(_), "packetSize_") => {
                Some(number.is_some_and(|bytes| (0.0..=65_535.0).contains(&bytes)))
            }
            (Kind::Application(_), "interval_") => {
                Some(value.is_empty() || number.is_some_and(|seconds| seconds >= 0.0))
            }
            (Kind::Application(_), "rate_") => {
                Some(matches!(value, "" | "0") || super::units::bandwidth(value).is_ok())
            }
            (Kind::Program, "node" | "command" | "dir" | "timeout" | "expected-exit-code") => Some(true),
            (Kind::Node(_), "type" | "osid") | (Kind::Application(_), "iptos_") => Some(true),
            _ => None,
        };
        match known {
            Some(true) => Ok(()),
            Some(false) => Err(Flow::refuse(format!("\"{}\" is no value for {name} of a {class}", short(value)))),
            None => {
                self.ignored(format!("\"set {}\" of a {class} has no effect here", short(name)));
                Ok(())
            }
        }
    }

    /// Emulab keeps whatever is set; a queue here has to make something of it.
    pub(crate) fn remark_queue_value(&mut self, name: &str, value: &str) {
        if let (Some(read), Some(used)) = (number::prefix(value), super::units::queue_value(name, value))
            && (read.1 != value.len() || (read.0 - used).abs() > 0.0)
        {
            self.warn(format!("\"{}\" for {name} of a queue is taken for {used}", short(value)));
        }
    }

    fn object_info(&mut self, id: Id, arguments: &[Value]) -> Outcome {
        let object = self.world.object(id);
        match arguments {
            [what] if what.as_str() == "class" => Ok(Value::from(object.class())),
            [what, class] if what.as_str() == "class" => Ok(Value::from_bool(object.is_a(class.as_str()))),
            [what] if what.as_str() == "vars" => {
                Ok(Value::from_list(object.variables.keys().map(|name| Value::from(name.as_str())).collect()))
            }
            _ => fail("only \"info class\" and \"info vars\" of objects are understood here"),
        }
    }

    /// The object that a word names.
    pub(crate) fn object_named(&self, word: &Value) -> Result<Id, Flow> {
        match self.world.find(word.as_str()) {
            Some(id) => Ok(id),
            None => fail(format!("there is no object \"{}\"", short(word.as_str()))),
        }
    }

    /// The node that a word names.
    pub(crate) fn node_named(&self, word: &Value) -> Result<Id, Flow> {
        let id = self.object_named(word)?;
        self.expect(id, matches!(self.world.object(id).kind, Kind::Node(_)), "node")
    }

    /// The link or LAN that a word names.
    pub(crate) fn net_named(&self, word: &Value) -> Result<Id, Flow> {
        let id = self.object_named(word)?;
        self.expect(id, matches!(self.world.object(id).kind, Kind::Net(_)), "link or LAN")
    }

    /// The link that a word names.
    pub(crate) fn link_named(&self, word: &Value) -> Result<Id, Flow> {
        let id = self.object_named(word)?;
        self.expect(id, self.world.net(id).is_some_and(|net| !net.lan), "link")
    }

    /// The LAN that a word names.
    pub(crate) fn lan_named(&self, word: &Value) -> Result<Id, Flow> {
        let id = self.object_named(word)?;
        self.expect(id, self.world.net(id).is_some_and(|net| net.lan), "LAN")
    }

    /// Refuses an object that is not what is needed.
    pub(crate) fn expect(&self, id: Id, is_it: bool, what: &str) -> Result<Id, Flow> {
        let object = self.world.object(id);
        match (is_it, &object.kind) {
            (true, _) => Ok(id),
            (false, Kind::Null(made)) => Err(Flow::refuse(format!(
                "\"{}\" is no {what}: it was made on line {} by \"{made}\", which nobody knows{}",
                object.name,
                object.line,
                super::traffic::meant(made)
            ))),
            (false, _) => Err(Flow::refuse(format!("\"{}\" is a {}, not a {what}", object.name, object.class()))),
        }
    }
}

/// The parameters of a queue that nobody has set: ns's defaults.
fn default_of_queue(queue: &QueueOf, name: &str) -> Option<&'static str> {
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

/// `-name value` pairs of a method; every name must be one of `names`.
pub(crate) fn named<'a>(arguments: &'a [Value], names: &[&str]) -> Result<Vec<(&'a str, &'a str)>, Flow> {
    let mut pairs = Vec::new();
    for pair in arguments.chunks(2) {
        let name = pair[0].as_str();
        if !names.contains(&name) {
            return fail(format!("bad option \"{}\", should be one of: {}", short(name), names.join(" ")));
        }
        pairs.push((name, pair.get(1).map_or("", Value::as_str)));
    }
    Ok(pairs)
}

/// How many arguments a method takes.
pub(crate) fn arity(arguments: &[Value], least: usize, most: usize, how: &str) -> Result<(), Flow> {
    match (least..=most).contains(&arguments.len()) {
        true => Ok(()),
        false => fail(format!("wrong # args: should be \"{how}\"")),
    }
}
