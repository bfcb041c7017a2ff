//! Agents and applications: the traffic between nodes.

use roost_topology::suggest::did_you_mean;

use super::methods::arity;
use super::state::{Application, NsAgent, NsObjectId, NsObjectKind};
use super::tcl::completion::{TclCompletion, TclResult, fail};
use super::tcl::interp::TclInterpreter;
use super::tcl::value::TclValue;

const AGENTS: [&str; 9] = [
    "Agent/UDP",
    "Agent/Null",
    "Agent/TCP",
    "Agent/TCPSink",
    "Agent/TCP/FullTcp",
    "Agent/TCP/FullTcp/Reno",
    "Agent/TCP/FullTcp/Newreno",
    "Agent/TCP/FullTcp/Tahoe",
    "Agent/TCP/FullTcp/Sack",
];

const APPLICATIONS: [&str; 3] = ["Application/Traffic/CBR", "Application/FTP", "Application/Telnet"];

/// The default of a source's packet size, bytes, and of its rate.
pub(crate) const PACKET_BYTES: &str = "210";
pub(crate) const RATE: &str = "100Mbps";

/// The operating system of hosts whose traffic ns itself generates.
const NSE_SYSTEM: &str = "FBSD-STD";

/// The end of a sentence about an unknown class: the class of a similar spelling, or empty.
pub(crate) fn meant(class: &str) -> String {
    let known = || AGENTS.into_iter().chain(APPLICATIONS);
    match known().find(|known| known.eq_ignore_ascii_case(class)) {
        Some(same) => format!("; did you mean `{same}`?"),
        None => did_you_mean(class, known()),
    }
}

pub(crate) fn is_class(class: &str) -> bool {
    AGENTS.contains(&class) || APPLICATIONS.contains(&class)
}

/// True if ns itself generates an agent's traffic.
pub(crate) fn is_full_tcp(class: &str) -> bool {
    class.starts_with("Agent/TCP/FullTcp")
}

impl TclInterpreter {
    pub(crate) fn new_traffic(&mut self, class: &str) -> TclResult {
        let kind = match AGENTS.contains(&class) {
            true => NsObjectKind::Agent(NsAgent {
                class: class.to_owned(),
                source: is_full_tcp(class).then_some(true),
                ..NsAgent::default()
            }),
            false => NsObjectKind::Application(Application { class: class.to_owned(), agent: None }),
        };
        self.add_new(class, kind)
    }

    /// `$ns attach-agent node agent`: assigns a port, from 5001 on.
    pub(crate) fn attach_agent(&mut self, arguments: &[TclValue]) -> TclResult {
        arity(arguments, 2, 2, "$ns attach-agent node agent")?;
        let (node, agent) = (self.node_named(&arguments[0])?, self.agent_named(&arguments[1])?);
        let attached = self.world.node_mut(node).map_or(0, |node| {
            node.agents.push(agent);
            node.agents.len()
        });
        if let NsObjectKind::Agent(agent) = &mut self.world.object_mut(agent).kind {
            agent.node = Some(node);
            agent.port =
                u16::try_from(5000 + attached).map_err(|_| TclCompletion::refuse("a node has too many agents"))?;
        }
        Ok(TclValue::default())
    }

    fn agent_named(&self, word: &TclValue) -> Result<NsObjectId, TclCompletion> {
        let id = self.object_named(word)?;
        self.expect(id, matches!(self.world.object(id).kind, NsObjectKind::Agent(_)), "agent")
    }

    /// `$ns connect source sink`.
    pub(crate) fn connect(&mut self, arguments: &[TclValue]) -> TclResult {
        arity(arguments, 2, 2, "$ns connect agent1 agent2")?;
        let ends = [self.object_named(&arguments[0])?, self.object_named(&arguments[1])?];
        if ends.iter().any(|id| matches!(self.world.object(*id).kind, NsObjectKind::Ineffective("Console"))) {
            self.ignored("consoles have no effect here");
            return Ok(TclValue::default());
        }
        let (source, sink) = (self.agent_named(&arguments[0])?, self.agent_named(&arguments[1])?);
        self.connect_end(source, sink);
        self.connect_end(sink, source);
        Ok(TclValue::default())
    }

    fn connect_end(&mut self, id: NsObjectId, other: NsObjectId) {
        let name = self.world.name(id).to_owned();
        let NsObjectKind::Agent(agent) = &mut self.world.object_mut(id).kind else { return };
        let again = agent.destination.replace(other).is_some();
        (agent.source, agent.proto) = match agent.class.as_str() {
            "Agent/UDP" => (Some(true), "udp"),
            "Agent/TCP" => (Some(true), "tcp"),
            "Agent/TCPSink" => (Some(false), "tcp"),
            "Agent/Null" => (Some(false), agent.proto),
            _ => (agent.source, "tcp"),
        };
        let system = is_full_tcp(&agent.class).then_some(agent.node).flatten();
        if let Some(node) = system {
            self.world.object_mut(node).variables.insert("osid".to_owned(), TclValue::from(NSE_SYSTEM));
        }
        if again {
            self.warn(format!("\"{name}\" was connected already: the last one counts"));
        }
    }

    pub(crate) fn agent_method(&mut self, id: NsObjectId, method: &str, _: &[TclValue]) -> TclResult {
        if let ("listen", NsObjectKind::Agent(agent)) = (method, &mut self.world.object_mut(id).kind)
            && is_full_tcp(&agent.class)
        {
            agent.source = Some(false);
            return Ok(TclValue::default());
        }
        Ok(self.unknown_method(id, method))
    }

    pub(crate) fn application_method(&mut self, id: NsObjectId, method: &str, arguments: &[TclValue]) -> TclResult {
        if method != "attach-agent" {
            return Ok(self.unknown_method(id, method));
        }
        let [agent] = arguments else { return fail("wrong # args: should be \"$application attach-agent agent\"") };
        let agent_id = self.agent_named(agent)?;
        if let NsObjectKind::Agent(agent) = &mut self.world.object_mut(agent_id).kind {
            agent.application = Some(id);
            agent.source = Some(true);
        }
        if let NsObjectKind::Application(application) = &mut self.world.object_mut(id).kind {
            application.agent = Some(agent_id);
        }
        Ok(TclValue::default())
    }
}
