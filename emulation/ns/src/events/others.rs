//! Events of nodes, lists of events, and the simulator.

use roost_topology::emulab::EmulabEvent;

use super::{Effect, NsEvent, NsEventDraft, TclCompletion};
use crate::methods::named;
use crate::tcl::value::TclValue;

pub(super) fn list_event(wanted: &NsEventDraft<'_>, kind: &str) -> Result<NsEvent, TclCompletion> {
    match wanted.verb {
        "start" | "run" => Ok(wanted.each(wanted.row(kind, &wanted.verb.to_uppercase(), ""), Effect::Run)),
        "reset" => Ok(NsEventDraft::without_effect(wanted.row(kind, "RESET", ""))),
        _ => wanted.unknown_verb("a list of events", "\"start\", \"run\" or \"reset\""),
    }
}

pub(super) fn node_event(wanted: &NsEventDraft<'_>, placed: bool) -> Result<NsEvent, TclCompletion> {
    let row = match wanted.verb {
        "reboot" => wanted.row("NODE", "REBOOT", ""),
        "reload" => {
            let image = named(wanted.arguments, &["-image"])?;
            let image = image.last().map_or(String::new(), |(_, image)| format!("IMAGE={image}"));
            wanted.row("NODE", "RELOAD", image)
        }
        "snapshot-to" => {
            wanted.need(1, "snapshot-to IMAGE")?;
            wanted.row("NODE", "SNAPSHOT", format!("IMAGE={}", wanted.argument(0)))
        }
        "setdest" if !placed => {
            return Err(TclCompletion::refuse(format!(
                "\"{}\" stands on no topography: give it one before it moves",
                wanted.object
            )));
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
    Ok(NsEventDraft::without_effect(row))
}

pub(super) fn simulator_event(wanted: &NsEventDraft<'_>) -> Result<NsEvent, TclCompletion> {
    let text = || wanted.arguments.iter().map(TclValue::as_str).collect::<Vec<_>>().join(" ");
    let of_all =
        |kind: &str, event: &str, args: String| EmulabEvent { node: "*".to_owned(), ..wanted.row(kind, event, args) };
    let simulator = |event: &str, args: String| of_all("SIMULATOR", event, args);
    let row = match wanted.verb {
        "halt" | "terminate" => {
            return Ok(NsEvent { row: simulator("HALT", String::new()), effects: vec![Effect::Halt] });
        }
        "swapout" => {
            return Ok(NsEvent { row: simulator("SWAPOUT", String::new()), effects: vec![Effect::Halt] });
        }
        "stoprun" => simulator("STOPRUN", String::new()),
        "stabilize" => simulator("MODIFY", "mode=stabilize".to_owned()),
        "msg" | "message" => simulator("MESSAGE", text()),
        "log" => simulator("LOG", text()),
        "report" => simulator("REPORT", report(wanted)?),
        "snapshot" => simulator("SNAPSHOT", "LOGHOLE_ARGS='-s'".to_owned()),
        "cleanlogs" => simulator("RESET", "ASPECT=LOGHOLE".to_owned()),
        "trace-for" => {
            wanted.need(1, "trace-for SECONDS")?;
            let row = of_all("SLOTHD", "START", format!("DURATION={}", wanted.argument(0)));
            EmulabEvent { object: "slothd".to_owned(), ..row }
        }
        "linktest" => {
            let given = named(wanted.arguments, &["-bw", "-stopat"])?;
            let stop = given.iter().rev().find(|(name, _)| *name == "-stopat").map_or("3", |(_, value)| value);
            let row = of_all("LINKTEST", "START", format!("STARTAT=1 STOPAT={stop}"));
            EmulabEvent { object: "linktest".to_owned(), ..row }
        }
        "reset-lans" => EmulabEvent { object: "__all_lans".to_owned(), ..of_all("LINK", "RESET", String::new()) },
        _ => return wanted.unknown_verb("the simulator", SIMULATOR_VERBS),
    };
    Ok(NsEventDraft::without_effect(row))
}

const SIMULATOR_VERBS: &str =
    "\"halt\", \"terminate\", \"swapout\", \"stoprun\", \"snapshot\", \"report\", \"linktest\" or \"log\"";

fn report(wanted: &NsEventDraft<'_>) -> Result<String, TclCompletion> {
    let given = named(wanted.arguments, &["-digester", "-archive"])?;
    let last = |name: &str| given.iter().rev().find(|(other, value)| *other == name && !value.is_empty());
    let digester = last("-digester").map_or(String::new(), |(_, value)| format!("DIGESTER={{{value}}}"));
    let archive = last("-archive").map_or(String::new(), |(_, value)| format!("ARCHIVE={{{value}}} "));
    Ok(archive + &digester)
}

pub(super) fn idle_event(class: &str, wanted: &NsEventDraft<'_>) -> NsEvent {
    NsEventDraft::without_effect(wanted.row(&class.to_uppercase(), &wanted.verb.to_uppercase(), ""))
}
