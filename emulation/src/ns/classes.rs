//! `new class`: what is made without `$ns`.

use super::tcl::flow::{Flow, Outcome, fail};
use super::tcl::interp::Interp;
use super::tcl::short;
use super::tcl::value::Value;
use super::world::Kind;

/// Classes that Emulab knows and that have no effect here.
const IDLE: [&str; 2] = ["Path", "Console"];

/// `new class ?argument?`.
pub(crate) fn new(interp: &mut Interp, words: &[Value]) -> Outcome {
    let [_, class, arguments @ ..] = words else { return fail("wrong # args: should be \"new class ?arg ...?\"") };
    match class.as_str() {
        "Simulator" => {
            if interp.world.objects().any(|(_, object)| matches!(object.kind, Kind::Simulator)) {
                return Err(Flow::refuse("there is a Simulator already, and a topology has one"));
            }
            interp.add_new("Simulator", Kind::Simulator)
        }
        class @ ("Program" | "EventGroup" | "EventTimeline" | "Blockstore") => {
            interp.expect_simulator(arguments, class)?;
            match class {
                "Program" => interp.new_program().map(|id| Value::from(interp.world.name(id))),
                "EventGroup" => interp.add_new(class, Kind::Group(Vec::new())),
                "EventTimeline" => interp.add_new(class, Kind::Timeline(Vec::new())),
                _ => interp.make_blockstore(),
            }
        }
        "Firewall" => {
            interp.expect_simulator(arguments, "Firewall")?;
            interp.new_firewall()
        }
        "Topography" => interp.add_new("Topography", Kind::Topography { loaded: false }),
        other if super::traffic::is_class(other) => interp.new_traffic(other),
        other => match IDLE.into_iter().find(|idle| *idle == other) {
            Some(class) => {
                interp.ignored(format!("a {class} has no effect here"));
                interp.add_new(class, Kind::Idle(class))
            }
            None => {
                interp.warn(format!("\"{}\" is no class that Emulab knows: its objects do nothing", short(other)));
                let name = format!("null{}", interp.world.next_numbered(0));
                interp.world.add(name.clone(), interp.line, Kind::Null(short(other)))?;
                Ok(Value::from(name))
            }
        },
    }
}

impl Interp {
    /// Adds what `new` makes, which the next global variable names.
    pub(crate) fn add_new(&mut self, class: &str, kind: Kind) -> Outcome {
        let name = format!("{class}{}", self.world.next_numbered(0));
        let id = self.world.add(name.clone(), self.line, kind)?;
        self.world.expect_name(id);
        Ok(Value::from(name))
    }

    fn expect_simulator(&mut self, arguments: &[Value], class: &str) -> Result<(), Flow> {
        let Some(word) = arguments.first() else { return fail(format!("wrong # args: should be \"new {class} $ns\"")) };
        let id = self.object_named(word)?;
        match self.world.object(id).kind {
            Kind::Simulator => Ok(()),
            _ => Err(Flow::refuse(format!("\"new {class}\" takes the Simulator, and \"{}\" is none", word.as_str()))),
        }
    }
}
