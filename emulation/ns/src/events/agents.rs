//! Events of programs and traffic agents.

use roost_topology::emulab::EmulabEvent;
use roost_topology::model::{ProgramAction, TrafficAction};
use roost_topology::units::Rate;

use super::{Effect, NsEvent, NsEventDraft, TclCompletion, TclInterpreter};
use crate::methods::named;
use crate::state::{NsObjectId, NsObjectKind};
use crate::tcl::value::TclValue;
use crate::tcl::{number, short};
use crate::units;

impl TclInterpreter {
    pub(super) fn program_event(
        &mut self,
        first: NsObjectId,
        wanted: &NsEventDraft<'_>,
    ) -> Result<NsEvent, TclCompletion> {
        let variable = |name: &str| self.world.object(first).variables.get(name).map_or("", TclValue::as_str);
        let (node, own) = match wanted.is_group {
            true => ("*".to_owned(), String::new()),
            false => (variable("node").to_owned(), variable("command").to_owned()),
        };
        let program = |event: &str, args: String, what: ProgramAction| {
            let row = EmulabEvent { node: node.clone(), ..wanted.row("PROGRAM", event, args) };
            wanted.each(row, |program| Effect::Program { program, what: what.clone() })
        };
        match wanted.verb {
            verb @ ("start" | "run" | "set") => {
                let (args, command) = command(wanted, &own)?;
                Ok(match verb {
                    "start" => program("START", args, ProgramAction::Start(command)),
                    "run" => program("RUN", args, ProgramAction::Run(command)),
                    _ => program("MODIFY", args, ProgramAction::Set(command.unwrap_or_default())),
                })
            }
            "stop" => Ok(program("STOP", String::new(), ProgramAction::Stop)),
            "kill" => {
                wanted.need(1, "kill HUP")?;
                let signal = wanted.argument(0);
                Ok(program("KILL", format!("SIGNAL={signal}"), ProgramAction::Kill(signal.to_owned())))
            }
            _ => {
                wanted.unknown_verb("a program", "\"start\", \"run\", \"stop\", \"kill SIGNAL\" or \"set -command …\"")
            }
        }
    }

    pub(super) fn application_event(
        &mut self,
        first: NsObjectId,
        class: &str,
        wanted: &NsEventDraft<'_>,
    ) -> Result<NsEvent, TclCompletion> {
        if class != "Application/Traffic/CBR" {
            return self.nse_event(first, wanted);
        }
        let node = if wanted.is_group { String::new() } else { self.node_of_application(first)? };
        let (event, args, what) = match wanted.verb {
            "start" => ("START", String::new(), Some(TrafficAction::Start)),
            "stop" => ("STOP", String::new(), Some(TrafficAction::Stop)),
            "reset" => ("RESET", String::new(), None),
            "set" => {
                let (args, what) = self.traffic_change(wanted)?;
                ("MODIFY", args, what)
            }
            _ => return wanted.unknown_verb("traffic", "\"start\", \"stop\", \"reset\" or \"set rate_ 1Mb\""),
        };
        let row = EmulabEvent { node, ..wanted.row("TRAFGEN", event, args) };
        Ok(wanted.each(row, |source| what.map_or(Effect::Other, |what| Effect::Traffic { source, what })))
    }

    fn traffic_change(&mut self, wanted: &NsEventDraft<'_>) -> Result<(String, Option<TrafficAction>), TclCompletion> {
        wanted.need(2, "set packetSize_ 500")?;
        let (name, text) = (wanted.argument(0), wanted.argument(1));
        let wrong = || TclCompletion::refuse(format!("\"{}\" is no value for {name}", short(text)));
        Ok(match name {
            "packetSize_" => {
                let bytes = text.parse().map_err(|_| wrong())?;
                (format!("PACKETSIZE={text}"), Some(TrafficAction::PacketBytes(bytes)))
            }
            "rate_" => {
                let kbps = self.read_rate(text)?;
                (format!("RATE={kbps}"), Some(TrafficAction::Rate(Rate::from_bps(kbps * 1000))))
            }
            "interval_" => {
                let whole = number::prefix(text).filter(|(seconds, len)| *len == text.len() && *seconds >= 0.0);
                let (seconds, _) = whole.ok_or_else(wrong)?;
                (format!("INTERVAL={text}"), Some(TrafficAction::Interval(seconds)))
            }
            "iptos_" => (format!("IPTOS={text}"), None),
            other => {
                self.warn(format!("events do not change \"{}\" of traffic", short(other)));
                (String::new(), None)
            }
        })
    }

    /// Events of FTP, Telnet and full TCP, which ns itself would run.
    pub(super) fn nse_event(&mut self, first: NsObjectId, wanted: &NsEventDraft<'_>) -> Result<NsEvent, TclCompletion> {
        let arguments: Vec<&str> = wanted.arguments.iter().map(TclValue::as_str).collect();
        let args = format!("${} {} {}", wanted.object, wanted.verb, arguments.join(" "));
        let node = match &self.world.object(first).kind {
            _ if wanted.is_group => String::new(),
            NsObjectKind::Agent(agent) => agent.node.map_or_else(String::new, |node| self.world.name(node).to_owned()),
            _ => self.node_of_application(first)?,
        };
        let row = EmulabEvent { node, ..wanted.row("NSE", "NSEEVENT", args) };
        Ok(wanted.each(row, |source| match wanted.verb {
            "start" => Effect::Traffic { source, what: TrafficAction::Start },
            "stop" => Effect::Traffic { source, what: TrafficAction::Stop },
            _ => Effect::Other,
        }))
    }

    fn node_of_application(&self, id: NsObjectId) -> Result<String, TclCompletion> {
        let NsObjectKind::Application(application) = &self.world.object(id).kind else { return Ok(String::new()) };
        let Some(agent) = application.agent else {
            return Err(TclCompletion::refuse(format!("\"{}\" is not attached to an agent", self.world.name(id))));
        };
        let NsObjectKind::Agent(agent) = &self.world.object(agent).kind else { return Ok(String::new()) };
        Ok(agent.node.map_or_else(String::new, |node| self.world.name(node).to_owned()))
    }
}

/// Emulab's row for a program's start, and the command to start.
fn command(wanted: &NsEventDraft<'_>, own: &str) -> Result<(String, Option<String>), TclCompletion> {
    let given = named(wanted.arguments, &["-command", "-dir", "-timeout", "-expected-exit-code", "-tag"])?;
    let last = |name: &str| given.iter().rev().find(|(other, _)| *other == name).map_or("", |(_, value)| value);
    let command = given.iter().rev().find(|(name, _)| *name == "-command").map_or(own, |(_, command)| command);
    let mut args = String::new();
    for (name, prefix, suffix) in
        [("-dir", "DIR={", "} "), ("-expected-exit-code", "EXPECTED_EXIT_CODE=", " "), ("-tag", "TAG=", " ")]
    {
        if !last(name).is_empty() {
            args.extend([prefix, last(name), suffix]);
        }
    }
    if !last("-timeout").is_empty() {
        let timeout = units::stored_time(last("-timeout")).map_err(TclCompletion::refuse)?;
        args += &format!("TIMEOUT={{{timeout}}} ");
    }
    if command.is_empty() {
        return Ok((args, None));
    }
    args.extend(["COMMAND=", command]);
    let run = match last("-dir") {
        "" => command.to_owned(),
        folder => format!("cd '{}' && {command}", folder.replace('\'', "'\\''")),
    };
    Ok((args, Some(run)))
}
