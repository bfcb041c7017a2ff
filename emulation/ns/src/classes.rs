//! `new class`: objects that are not made by `$ns`.

use super::state::NsObjectKind;
use super::tcl::completion::{TclCompletion, TclResult, fail};
use super::tcl::interp::TclInterpreter;
use super::tcl::short;
use super::tcl::value::TclValue;

/// Classes of Emulab that have no effect here.
const IDLE: [&str; 2] = ["Path", "Console"];

/// `new class ?argument?`.
pub(crate) fn new(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    let [_, class, arguments @ ..] = words else { return fail("wrong # args: should be \"new class ?arg ...?\"") };
    match class.as_str() {
        "Simulator" => {
            if interp.world.objects().any(|(_, object)| matches!(object.kind, NsObjectKind::Simulator)) {
                return Err(TclCompletion::refuse("there is a Simulator already, and a topology has one"));
            }
            interp.add_new("Simulator", NsObjectKind::Simulator)
        }
        class @ ("Program" | "EventGroup" | "EventTimeline" | "Blockstore") => {
            interp.expect_simulator(arguments, class)?;
            match class {
                "Program" => interp.new_program().map(|id| TclValue::from(interp.world.name(id))),
                "EventGroup" => interp.add_new(class, NsObjectKind::Group(Vec::new())),
                "EventTimeline" => interp.add_new(class, NsObjectKind::Timeline(Vec::new())),
                _ => interp.make_blockstore(),
            }
        }
        "Firewall" => {
            interp.expect_simulator(arguments, "Firewall")?;
            interp.new_firewall()
        }
        "Topography" => interp.add_new("Topography", NsObjectKind::Topography { loaded: false }),
        other if super::traffic::is_class(other) => interp.new_traffic(other),
        other => match IDLE.into_iter().find(|idle| *idle == other) {
            Some(class) => {
                interp.ignored(format!("a {class} has no effect here"));
                interp.add_new(class, NsObjectKind::Ineffective(class))
            }
            None => {
                interp.warn(format!("\"{}\" is no class that Emulab knows: its objects do nothing", short(other)));
                let name = format!("null{}", interp.world.next_numbered(0));
                interp.world.add(name.clone(), interp.line, NsObjectKind::Null(short(other)))?;
                Ok(TclValue::from(name))
            }
        },
    }
}

impl TclInterpreter {
    /// Adds an object made by `new`, which the next global variable names.
    pub(crate) fn add_new(&mut self, class: &str, kind: NsObjectKind) -> TclResult {
        let name = format!("{class}{}", self.world.next_numbered(0));
        let id = self.world.add(name.clone(), self.line, kind)?;
        self.world.expect_name(id);
        Ok(TclValue::from(name))
    }

    fn expect_simulator(&mut self, arguments: &[TclValue], class: &str) -> Result<(), TclCompletion> {
        let Some(word) = arguments.first() else { return fail(format!("wrong # args: should be \"new {class} $ns\"")) };
        let id = self.object_named(word)?;
        match self.world.object(id).kind {
            NsObjectKind::Simulator => Ok(()),
            _ => Err(TclCompletion::refuse(format!(
                "\"new {class}\" takes the Simulator, and \"{}\" is none",
                word.as_str()
            ))),
        }
    }
}
