//! Naming of objects by variables.

use super::state::NsObjectId;
use super::tb;
use super::tcl::completion::{TclCompletion, TclResult, fail};
use super::tcl::interp::TclInterpreter;
use super::tcl::value::TclValue;
use super::tcl::{is_command, short};

/// The longest name of an object, in bytes.
const MAX_NAME: usize = 255;

impl TclInterpreter {
    /// Stores `value` in `variable`. If the variable is global and the value is the object that was made last,
    /// the variable names the object. Returns the stored value: the new name.
    pub(crate) fn name_object(&mut self, variable: &str, value: &TclValue) -> TclResult {
        self.set(variable, value.clone())?;
        let Some(id) = self.world.pending else { return Ok(value.clone()) };
        let base = variable.split('(').next().unwrap_or_default();
        if !self.is_global(base) {
            return Ok(value.clone());
        }
        self.world.pending = None;
        if self.world.name(id) != value.as_str() {
            return Ok(value.clone());
        }
        let name = variable.replace('(', "-").replace(')', "");
        self.rename_object(id, &name)?;
        let named = TclValue::from(name);
        self.set(variable, named.clone())?;
        Ok(named)
    }

    fn rename_object(&mut self, id: NsObjectId, name: &str) -> Result<(), TclCompletion> {
        if self.world.name(id) == name {
            return Ok(());
        }
        if name.len() > MAX_NAME {
            return fail(format!("a name is longer than {MAX_NAME} letters: \"{}\"", short(name)));
        }
        if let Some(other) = self.world.find(name) {
            let line = self.world.object(other).line;
            return fail(format!("there is an object \"{name}\" already, made on line {line}: names must be unique"));
        }
        let taken = is_command(name) || tb::find(name).is_some() || RESERVED.contains(&name);
        if taken || self.procedures.contains_key(name) {
            return fail(format!(
                "\"{name}\" is the name of a command, and every object is a command of its name: choose another variable"
            ));
        }
        self.world.rename(id, name);
        Ok(())
    }
}

/// Emulab's own classes and procedures, which are commands there.
const RESERVED: [&str; 44] = [
    "Agent",
    "Application",
    "Blockstore",
    "Bridge",
    "Class",
    "Console",
    "Custom",
    "Disk",
    "EventGroup",
    "EventSequence",
    "EventTimeline",
    "Firewall",
    "LLink",
    "Lan",
    "LanLink",
    "Link",
    "NSObject",
    "Node",
    "NullClass",
    "Object",
    "Path",
    "Program",
    "Queue",
    "SimplexLink",
    "Simulator",
    "Topography",
    "Vtype",
    "begin_oml_code_generator",
    "convert_to_mebi",
    "inet_atohl",
    "inet_hltoa",
    "lpop",
    "new",
    "parse_backfill",
    "parse_bw",
    "parse_delay",
    "perror",
    "punsup",
    "real_set",
    "real_source",
    "spitxml_data",
    "usage",
    "var_import",
    "xmlencode",
];
