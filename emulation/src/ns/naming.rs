//! How objects get their names.

use super::tb;
use super::tcl::flow::{Flow, Outcome, fail};
use super::tcl::interp::Interp;
use super::tcl::value::Value;
use super::tcl::{is_command, short};
use super::world::Id;

/// The longest name of an object, in bytes.
const MAX_NAME: usize = 255;

impl Interp {
    /// Stores `value` in `variable`, which names the object that was just made
    /// if the variable is global and the value is the object. Gives the value
    /// that is stored: the new name.
    pub(crate) fn name_object(&mut self, variable: &str, value: &Value) -> Outcome {
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
        let named = Value::from(name);
        self.set(variable, named.clone())?;
        Ok(named)
    }

    /// Emulab's own procedures assign their variables by the same `set`: one
    /// that shares its name with a global of the file ends the wait for a
    /// name. Files that make objects in procedures can depend on it.
    pub(crate) fn assigns(&mut self, command: &str) {
        if self.world.pending.is_none() {
            return;
        }
        let command = command.trim_start_matches("::");
        let names = ASSIGNED.iter().find(|(name, _)| *name == command).map_or(&[][..], |(_, names)| names);
        if names.iter().any(|name| self.is_global(name)) {
            self.world.pending = None;
        }
    }

    fn rename_object(&mut self, id: Id, name: &str) -> Result<(), Flow> {
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

/// Classes and procedures of Emulab's own, which are commands there.
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

/// What some of Emulab's procedures assign.
const ASSIGNED: [(&str, &[&str]); 16] = [
    (
        "at",
        &[
            "ptime",
            "time",
            "eventlist",
            "rc",
            "obj",
            "cmd",
            "evargs",
            "vnode",
            "vname",
            "otype",
            "etype",
            "args",
            "atstring",
            "cl",
        ],
    ),
    ("link", &["reallink", "dir", "name"]),
    ("lanlink", &["port", "name"]),
    ("cost", &["reallink"]),
    ("connect", &["error"]),
    ("tb-set-hardware", &["remote", "isv", "issub"]),
    ("tb-set-ip", &["caller", "port"]),
    ("tb-set-ip-interface", &["sim", "reallink", "caller", "port"]),
    ("tb-set-ip-lan", &["caller", "port"]),
    ("tb-set-ip-link", &["caller", "port"]),
    ("tb-set-lan-loss", &["adjloss"]),
    ("tb-set-link-loss", &["reallink", "lossrate", "adjloss"]),
    ("tb-set-link-simplex-params", &["port", "adjloss", "np", "onp", "realdelay", "realbw", "val"]),
    ("tb-set-netmask", &["netmaskint"]),
    ("tb-set-node-lan-delay", &["port", "rdelay", "val"]),
    ("tb-set-node-startcmd", &["newprog"]),
];
