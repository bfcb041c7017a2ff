//! Methods of nodes, and programs on them.

use roost_topology::emulab;
use roost_topology::model::{HostProgram, MAX_PROGRAMS};

use super::methods::{arity, named};
use super::state::{NsObjectId, NsObjectKind};
use super::tcl::completion::{TclCompletion, TclResult};
use super::tcl::interp::TclInterpreter;
use super::tcl::short;
use super::tcl::value::TclValue;
use super::units;

impl TclInterpreter {
    pub(crate) fn node_method(&mut self, id: NsObjectId, method: &str, arguments: &[TclValue]) -> TclResult {
        match method {
            "program-agent" => self.program_agent(id, arguments),
            "start-command" => {
                arity(arguments, 1, 1, "$node start-command command")?;
                self.start_command(id, arguments[0].as_str())
            }
            "add-route" => self.add_route(id, arguments),
            "console" => {
                let name = format!("{}-console", self.world.name(id));
                if self.world.find(&name).is_none() {
                    self.world.add(name.clone(), self.line, NsObjectKind::Ineffective("Console"))?;
                }
                Ok(TclValue::from(name))
            }
            "disk-agent" => {
                self.ignored("disk agents are Emulab's business: no effect here");
                self.add_new("Disk", NsObjectKind::Ineffective("Disk"))
            }
            "custom-agent" => {
                self.ignored("custom agents are Emulab's business: no effect here");
                self.add_new("Custom", NsObjectKind::Ineffective("Custom"))
            }
            "ip" => self.node_ip(id, arguments),
            "topography" => {
                arity(arguments, 1, 1, "$node topography topography")?;
                self.place_node(id, &arguments[0])
            }
            "add-desire" | "add-attribute" | "set-fw-style" | "add-rule" | "set_hwtype" | "set_fixed"
            | "add_ipalias" | "want_ipaliases" | "set_numeric_id" => {
                self.assigned(match method {
                    "add-desire" => &["desirelist"],
                    "add-attribute" => &["attributes"],
                    "set-fw-style" => &["fw_style"],
                    "add-rule" => &["fw_rules"],
                    "set_hwtype" => &["type", "isremote", "isvirt", "issubnode"],
                    "set_fixed" => &["fixed"],
                    "add_ipalias" => &["targetport", "curlist", "ipaliaslist"],
                    "want_ipaliases" => &["targetport", "wantipaliaslist"],
                    _ => &["numeric_id"],
                });
                self.ignored(format!("\"{method}\" of a node has no effect here"));
                Ok(TclValue::default())
            }
            other => Ok(self.unknown_method(id, other)),
        }
    }

    /// `$node ip port ?address?`.
    fn node_ip(&mut self, id: NsObjectId, arguments: &[TclValue]) -> TclResult {
        arity(arguments, 1, 2, "$node ip port ?address?")?;
        let port = arguments[0].as_str().parse::<usize>().ok();
        let place = port.and_then(|port| self.world.node(id)?.ports.get(port).copied());
        let Some((net, at)) = place else {
            return Err(TclCompletion::refuse(format!(
                "\"{}\" has no port {}",
                self.world.name(id),
                short(arguments[0].as_str())
            )));
        };
        let given =
            arguments.get(1).map(|text| units::address(text.as_str()).map_err(TclCompletion::refuse)).transpose()?;
        let Some(member) = self.world.net_mut(net).and_then(|net| net.members.get_mut(at)) else {
            return Ok(TclValue::default());
        };
        member.address = given.or(member.address);
        let address = member.address;
        if given.is_some() {
            self.assigned(&["ip", "iplist"]);
        }
        Ok(address.map_or_else(TclValue::default, |address| TclValue::from(address.to_string())))
    }

    fn add_route(&mut self, id: NsObjectId, arguments: &[TclValue]) -> TclResult {
        arity(arguments, 2, 2, "$node add-route destination nexthop")?;
        let (to, via) = (self.object_named(&arguments[0])?, self.node_named(&arguments[1])?);
        let to = match &self.world.object(to).kind {
            NsObjectKind::Node(_) | NsObjectKind::Net(_) => to,
            NsObjectKind::Side { net, .. } => *net,
            _ => {
                let class = self.world.object(to).class().to_owned();
                return Err(TclCompletion::refuse(format!("a route leads to a node, link or LAN, not to a {class}")));
            }
        };
        let name = self.world.name(id).to_owned();
        let Some(node) = self.world.node_mut(id) else { return Ok(TclValue::default()) };
        if node.routes.iter().any(|(other, _)| *other == to) {
            return Err(TclCompletion::refuse(format!(
                "\"{name}\" has a route to \"{}\" already",
                arguments[0].as_str()
            )));
        }
        node.routes.push((to, via));
        self.assigned(&["routelist"]);
        Ok(TclValue::default())
    }

    fn program_agent(&mut self, node: NsObjectId, arguments: &[TclValue]) -> TclResult {
        self.spend(arguments.iter().map(TclValue::len).sum::<usize>() / 64)?;
        let given = named(arguments, &["-command", "-dir", "-timeout", "-expected-exit-code"])?;
        let last = |name: &str| given.iter().rev().find(|(other, _)| *other == name).map_or("", |(_, value)| value);
        let timeout = match last("-timeout") {
            "" => None,
            text => Some(units::stored_time(text).map_err(TclCompletion::refuse)?),
        };
        let id = self.new_program()?;
        let name = self.world.name(node).to_owned();
        let program = self.world.object_mut(id);
        let mut set =
            |variable: &str, value: String| program.variables.insert(variable.to_owned(), TclValue::from(value));
        set("node", name);
        set("command", last("-command").to_owned());
        set("dir", last("-dir").to_owned());
        set("expected-exit-code", last("-expected-exit-code").to_owned());
        if let Some(timeout) = timeout {
            set("timeout", timeout);
            self.assigned(&["to"]);
        }
        Ok(TclValue::from(self.world.name(id)))
    }

    /// Makes a program, which the next global variable names.
    pub(crate) fn new_program(&mut self) -> Result<NsObjectId, TclCompletion> {
        self.world.programs += 1;
        if self.world.programs > MAX_PROGRAMS {
            return Err(TclCompletion::refuse(format!("there are more than {MAX_PROGRAMS} programs")));
        }
        let name = format!("Program{}", self.world.next_numbered(0));
        let id = self.world.add(name, self.line, NsObjectKind::Program)?;
        let group = self.program_group()?;
        if let NsObjectKind::Group(programs) = &mut self.world.object_mut(group).kind {
            programs.push(id);
        }
        self.world.expect_name(id);
        Ok(id)
    }

    /// Emulab makes a group of all programs, with a variable, together with the first program.
    fn program_group(&mut self) -> Result<NsObjectId, TclCompletion> {
        if let Some(group) = self.world.program_group {
            return Ok(group);
        }
        self.world.next_numbered(0);
        let group = self.world.add(ALL_PROGRAMS.to_owned(), self.line, NsObjectKind::Group(Vec::new()))?;
        self.set(&["::", ALL_PROGRAMS].concat(), TclValue::from(ALL_PROGRAMS))?;
        self.world.program_group = Some(group);
        Ok(group)
    }

    /// Sets the command that a node runs at the start and whose exit code it reports: `tb-set-node-startcmd`.
    pub(crate) fn reported_command(&mut self, node: NsObjectId, command: &str) -> TclResult {
        let program = HostProgram { command: command.to_owned(), start_command: true, ..HostProgram::default() };
        let wrapped = emulab::command(&program);
        let program = self.start_command(node, &wrapped)?;
        let id = self.object_named(&program)?;
        self.world.object_mut(id).variables.insert(PLAIN.to_owned(), TclValue::from(command));
        Ok(program)
    }

    fn start_command(&mut self, node: NsObjectId, command: &str) -> TclResult {
        self.spend(command.len() / 16)?;
        let node = self.world.name(node).to_owned();
        let id = self.new_program()?;
        let name = TclValue::from(self.world.name(id));
        // Only a global variable names it; in a procedure it keeps its internal name.
        let name = self.name_object(&format!("{node}_startcmd"), &name)?;
        let variables = &mut self.world.object_mut(id).variables;
        variables.insert("node".to_owned(), TclValue::from(node));
        variables.insert("command".to_owned(), TclValue::from(command));
        self.assigns("tb-set-node-startcmd");
        if !self.world.simulated {
            self.assigns("at");
            let event = [name.as_str(), "start"].join(" ");
            if let Some(made) = self.make_event(&TclValue::from(event))? {
                self.world.schedule.push((std::time::Duration::ZERO, made));
            }
            self.check_events()?;
        }
        Ok(name)
    }
}

const ALL_PROGRAMS: &str = "__all_programs";

/// The variable in which a program keeps its command without the wrapper.
pub(crate) const PLAIN: &str = " plain";
