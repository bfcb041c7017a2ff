//! Events of programs, traffic, nodes, lists of events, and the simulator.

use super::{Effect, Flow, Interp, Made, Wanted};
use crate::ns::tcl::short;
use crate::ns::tcl::value::Value;
use crate::ns::units;
use crate::ns::world::{Id, Kind};
use crate::scenario::emulab::Row;
use crate::scenario::topology::{ProgramAction, TrafficAction};
use crate::units::Rate;

impl Interp {
    pub(super) fn program_event(&mut self, first: Id, wanted: &Wanted<'_>) -> Result<Made, Flow> {
        let variable = |name: &str| self.world.object(first).variables.get(name).map_or("", Value::as_str);
        let (node, own) = match wanted.is_group {
            true => ("*".to_owned(), String::new()),
            false => (variable("node").to_owned(), variable("command").to_owned()),
        };
        let program = |event: &str, args: String, what: ProgramAction| {
            let row = Row { node: node.clone(), ..wanted.row("PROGRAM", event, args) };
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

    pub(super) fn application_event(&mut self, first: Id, class: &str, wanted: &Wanted<'_>) -> Result<Made, Flow> {
        if class != "Application/Traffic/CBR" {
            return self.nse_event(first, wanted);
        }
        let node = if wanted.is_group { String::new() } else { self.node_of_application(first)? };
        let traffic = |event: &str, args: String, what: Option<TrafficAction>| {
            let row = Row { node: node.clone(), ..wanted.row("TRAFGEN", event, args) };
            wanted.each(row, |source| what.map_or(Effect::Other, |what| Effect::Traffic { source, what }))
        };
        Ok(match wanted.verb {
            "start" => traffic("START", String::new(), Some(TrafficAction::Start)),
            "stop" => traffic("STOP", String::new(), Some(TrafficAction::Stop)),
            "reset" => traffic("RESET", String::new(), None),
            "set" => {
                wanted.need(2, "set packetSize_ 500")?;
                let text = wanted.argument(1);
                let wrong = || Flow::refuse(format!("\"{}\" is no value for {}", short(text), wanted.argument(0)));
                match wanted.argument(0) {
                    "packetSize_" => {
                        let bytes = text.parse().map_err(|_| wrong())?;
                        traffic("MODIFY", format!("PACKETSIZE={text}"), Some(TrafficAction::PacketBytes(bytes)))
                    }
                    "rate_" => {
                        let kbps = units::bandwidth(text).map_err(Flow::refuse)?.kbps();
                        let what = TrafficAction::Rate(Rate::from_bps(kbps * 1000));
                        traffic("MODIFY", format!("RATE={kbps}"), Some(what))
                    }
                    "interval_" => {
                        let seconds = text.parse().ok().filter(|seconds: &f64| *seconds >= 0.0).ok_or_else(wrong)?;
                        traffic("MODIFY", format!("INTERVAL={text}"), Some(TrafficAction::Interval(seconds)))
                    }
                    "iptos_" => traffic("MODIFY", format!("IPTOS={text}"), None),
                    other => {
                        self.warn(format!("events do not change \"{}\" of traffic", short(other)));
                        traffic("MODIFY", String::new(), None)
                    }
                }
            }
            _ => return wanted.unknown_verb("traffic", "\"start\", \"stop\", \"reset\" or \"set rate_ 1Mb\""),
        })
    }

    /// FTP, Telnet and full TCP: ns itself would run what the event says.
    pub(super) fn nse_event(&mut self, first: Id, wanted: &Wanted<'_>) -> Result<Made, Flow> {
        let arguments: Vec<&str> = wanted.arguments.iter().map(Value::as_str).collect();
        let args = format!("${} {} {}", wanted.object, wanted.verb, arguments.join(" "));
        let node = match &self.world.object(first).kind {
            _ if wanted.is_group => String::new(),
            Kind::Agent(agent) => agent.node.map_or_else(String::new, |node| self.world.name(node).to_owned()),
            _ => self.node_of_application(first)?,
        };
        let row = Row { node, ..wanted.row("NSE", "NSEEVENT", args) };
        Ok(wanted.each(row, |source| match wanted.verb {
            "start" => Effect::Traffic { source, what: TrafficAction::Start },
            "stop" => Effect::Traffic { source, what: TrafficAction::Stop },
            _ => Effect::Other,
        }))
    }

    fn node_of_application(&self, id: Id) -> Result<String, Flow> {
        let Kind::Application(application) = &self.world.object(id).kind else { return Ok(String::new()) };
        let Some(agent) = application.agent else {
            return Err(Flow::refuse(format!("\"{}\" is not attached to an agent", self.world.name(id))));
        };
        let Kind::Agent(agent) = &self.world.object(agent).kind else { return Ok(String::new()) };
        Ok(agent.node.map_or_else(String::new, |node| self.world.name(node).to_owned()))
    }
}

/// What Emulab stores of a program's start, and the command to start.
fn command(wanted: &Wanted<'_>, own: &str) -> Result<(String, Option<String>), Flow> {
    let given = wanted.named(&["-command", "-dir", "-timeout", "-expected-exit-code", "-tag"])?;
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
        let Some(timeout) = units::time(last("-timeout")) else {
            return Err(Flow::refuse(format!("\"{}\" is no time: write seconds, or 1h20m3s", short(last("-timeout")))));
        };
        args += &format!("TIMEOUT={{{}}} ", timeout.as_secs_f64());
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

pub(super) fn list_event(wanted: &Wanted<'_>, kind: &str) -> Result<Made, Flow> {
    match wanted.verb {
        "start" | "run" => Ok(wanted.each(wanted.row(kind, &wanted.verb.to_uppercase(), ""), Effect::Run)),
        "reset" => Ok(Wanted::without_effect(wanted.row(kind, "RESET", ""))),
        _ => wanted.unknown_verb("a list of events", "\"start\", \"run\" or \"reset\""),
    }
}

pub(super) fn node_event(wanted: &Wanted<'_>) -> Result<Made, Flow> {
    let row = match wanted.verb {
        "reboot" => wanted.row("NODE", "REBOOT", ""),
        "reload" => {
            let image = wanted.named(&["-image"])?;
            let image = image.last().map_or(String::new(), |(_, image)| format!("IMAGE={image}"));
            wanted.row("NODE", "RELOAD", image)
        }
        "snapshot-to" => {
            wanted.need(1, "snapshot-to IMAGE")?;
            wanted.row("NODE", "SNAPSHOT", format!("IMAGE={}", wanted.argument(0)))
        }
        "setdest" => {
            wanted.need(3, "setdest X Y SPEED")?;
            let (x, y, speed) = (wanted.argument(0), wanted.argument(1), wanted.argument(2));
            let orientation = if wanted.argument(3) == "-orientation" { wanted.argument(4) } else { "0" };
            wanted.row("NODE", "SETDEST", format!("X={x} Y={y} SPEED={speed} ORIENTATION={orientation}"))
        }
        _ => {
            return wanted
                .unknown_verb("a node", "\"reboot\", \"reload\", \"snapshot-to IMAGE\" or \"setdest X Y SPEED\"");
        }
    };
    Ok(Wanted::without_effect(row))
}

pub(super) fn simulator_event(wanted: &Wanted<'_>) -> Result<Made, Flow> {
    let text: Vec<&str> = wanted.arguments.iter().map(Value::as_str).collect();
    let simulator = |event: &str, args: String| Row { node: "*".to_owned(), ..wanted.row("SIMULATOR", event, args) };
    let row =
        match wanted.verb {
            "halt" | "terminate" => {
                return Ok(Made { row: simulator("HALT", String::new()), effects: vec![Effect::Halt] });
            }
            "swapout" => {
                return Ok(Made { row: simulator("SWAPOUT", String::new()), effects: vec![Effect::Halt] });
            }
            "stoprun" => simulator("STOPRUN", String::new()),
            "stabilize" => simulator("MODIFY", "mode=stabilize".to_owned()),
            "msg" | "message" => simulator("MESSAGE", text.join(" ")),
            "log" => simulator("LOG", text.join(" ")),
            "report" => {
                let given = wanted.named(&["-digester", "-archive"])?;
                let last = |name: &str| given.iter().rev().find(|(other, value)| *other == name && !value.is_empty());
                let digester = last("-digester").map_or(String::new(), |(_, value)| format!("DIGESTER={{{value}}}"));
                let archive = last("-archive").map_or(String::new(), |(_, value)| format!("ARCHIVE={{{value}}} "));
                simulator("REPORT", archive + &digester)
            }
            "snapshot" => simulator("SNAPSHOT", "LOGHOLE_ARGS='-s'".to_owned()),
            "cleanlogs" => simulator("RESET", "ASPECT=LOGHOLE".to_owned()),
            "trace-for" => {
                wanted.need(1, "trace-for SECONDS")?;
                let row = wanted.row("SLOTHD", "START", format!("DURATION={}", wanted.argument(0)));
                Row { object: "slothd".to_owned(), node: "*".to_owned(), ..row }
            }
            "linktest" => {
                let given = wanted.named(&["-bw", "-stopat"])?;
                let stop = given.iter().rev().find(|(name, _)| *name == "-stopat").map_or("3", |(_, value)| value);
                let row = wanted.row("LINKTEST", "START", format!("STARTAT=1 STOPAT={stop}"));
                Row { object: "linktest".to_owned(), node: "*".to_owned(), ..row }
            }
            "reset-lans" => {
                Row { object: "__all_lans".to_owned(), node: "*".to_owned(), ..wanted.row("LINK", "RESET", "") }
            }
            _ => return wanted.unknown_verb(
                "the simulator",
                "\"halt\", \"terminate\", \"swapout\", \"stoprun\", \"snapshot\", \"report\", \"linktest\" or \"log\"",
            ),
        };
    Ok(Wanted::without_effect(row))
}

/// Events of what has no effect here.
pub(super) fn idle_event(class: &str, wanted: &Wanted<'_>) -> Made {
    Wanted::without_effect(wanted.row(&class.to_uppercase(), &wanted.verb.to_uppercase(), ""))
}
