//! Assignments of Emulab's own procedures.
//!
//! They use the same `set` that names objects: an assignment to a variable that shares its name with a global
//! of the file ends the wait for a name. Files that make objects in procedures can depend on it.

use super::tcl::interp::TclInterpreter;

impl TclInterpreter {
    /// Ends the wait for a name if one of `names` is a global of the file.
    pub(crate) fn assigned(&mut self, names: &[&str]) {
        if self.world.pending.is_some() && names.iter().any(|name| self.is_global(name)) {
            self.world.pending = None;
        }
    }

    /// Makes the assignments that `command` makes with any arguments.
    pub(crate) fn assigns(&mut self, command: &str) {
        if self.world.pending.is_none() {
            return;
        }
        let command = command.trim_start_matches("::");
        if let Some((_, names)) = ALWAYS.iter().find(|(name, _)| *name == command) {
            self.assigned(names);
        }
    }
}

/// Assignments by command or method of the Simulator. Those that depend on the arguments are made where the
/// arguments are read.
const ALWAYS: [(&str, &[&str]); 57] = [
    ("at", &["time", "eventlist", "event_count"]),
    ("link", &["reallink", "dir", "name"]),
    ("lanlink", &["port", "name"]),
    ("cost", &["reallink"]),
    ("connect", &["error", "destination"]),
    ("tb-bind-parent", &["fixed"]),
    ("tb-elab-in-elab", &["elab_in_elab"]),
    ("tb-elab-in-elab-topology", &["elabinelab_topo"]),
    ("tb-elabinelab-singlenet", &["onoff", "elabinelab_singlenet"]),
    ("tb-fix-current-resources", &["fix_current_resources"]),
    ("tb-fix-interface", &["found", "fixed_iface"]),
    ("tb-fix-node", &["fixed"]),
    ("tb-force-endnodeshaping", &["forcelinkdelays"]),
    ("tb-make-hard-vtype", &["vtypes"]),
    ("tb-make-soft-vtype", &["vtypes"]),
    ("tb-make-weighted-vtype", &["vtypes"]),
    ("tb-set-colocate-factor", &["multiplex_factor"]),
    ("tb-set-cpu-usage", &["cpu_usage"]),
    ("tb-set-delay-capacity", &["delay_capacity"]),
    ("tb-set-delay-os", &["delay_osname"]),
    ("tb-set-dpdb", &["dpdb"]),
    ("tb-set-elabinelab-cvstag", &["elabinelab_cvstag"]),
    ("tb-set-elabinelab-fw-type", &["elabinelab_fw_type"]),
    ("tb-set-encapsulate", &["vlink_encapsulate"]),
    ("tb-set-hardware", &["remote", "isv", "issub", "type", "isremote", "isvirt", "issubnode"]),
    ("tb-set-inner-elab-eid", &["elabinelab_eid"]),
    ("tb-set-ip", &["caller", "port", "ip", "iplist"]),
    ("tb-set-ip-interface", &["sim", "reallink", "caller", "port", "ip", "iplist"]),
    ("tb-set-ip-lan", &["caller", "port", "ip", "iplist"]),
    ("tb-set-ip-link", &["caller", "port", "ip", "iplist"]),
    ("tb-set-ip-routing", &["default_ip_routing_type"]),
    ("tb-set-ipassign-args", &["ipassign_args"]),
    ("tb-set-jail-os", &["jail_osname"]),
    ("tb-set-lan-accesspoint", &["n", "p", "accesspoint"]),
    ("tb-set-lan-loss", &["adjloss", "loss", "rloss"]),
    ("tb-set-lan-setting", &["settings"]),
    ("tb-set-lan-simplex-params", &["port", "realtodelay", "realfromdelay", "realtobw", "realfrombw"]),
    ("tb-set-link-loss", &["reallink", "lossrate", "adjloss", "loss", "rloss"]),
    ("tb-set-link-simplex-params", &["port", "adjloss", "np", "onp", "realdelay", "realbw"]),
    ("tb-set-mem-usage", &["mem_usage"]),
    ("tb-set-netmask", &["netmaskint"]),
    ("tb-set-node-id", &["numeric_id"]),
    ("tb-set-node-lan-bandwidth", &["port"]),
    ("tb-set-node-lan-delay", &["port", "rdelay"]),
    ("tb-set-node-lan-loss", &["port"]),
    ("tb-set-node-lan-params", &["port", "rdelay"]),
    ("tb-set-node-lan-setting", &["n", "p", "member_settings"]),
    ("tb-set-node-memory-size", &["attributes", "desirelist"]),
    ("tb-set-node-startcmd", &["command", "newname", "newprog"]),
    ("tb-set-node-tarfiles", &["SHAREDNFS", "args", "tarfiles", "dir", "tarfile"]),
    ("tb-set-node-usesharednode", &["desirelist"]),
    ("tb-set-security-level", &["level", "security_level"]),
    ("tb-set-sync-server", &["sync_server"]),
    ("tb-set-tarfiles", &["SHAREDNFS", "args", "tarfiles", "dir", "tarfile"]),
    ("tb-set-vlink-emulation", &["style", "vlink_encapsulate"]),
    ("tb-use-endnodeshaping", &["uselinkdelays"]),
    ("tb-use-physnaming", &["use_physnaming"]),
];

#[cfg(test)]
mod tests {
    use super::ALWAYS;
    use crate::tb;

    #[test]
    fn every_command_exists_and_stands_once() {
        let commands: Vec<&str> = ALWAYS.iter().map(|(name, _)| *name).filter(|name| name.starts_with("tb-")).collect();
        assert!(commands.windows(2).all(|pair| pair[0] < pair[1]), "{commands:?}");
        assert!(commands.iter().all(|name| tb::find(name).is_some()), "{commands:?}");
    }
}
