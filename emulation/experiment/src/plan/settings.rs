//! Settings of daemons in a plan: `[settings.node]` and `[settings.hub]`.

use std::collections::BTreeMap;

use roost_topology::suggest::did_you_mean;
use roost_wire::Role;
use serde::Deserialize;
use toml::{Spanned, Value};

use super::file::PlanLines;
use super::{Architecture, PlanErrors};

/// The settings that a plan may give to nodes.
const NODE_KEYS: [&str; 14] = [
    "max_streams",
    "uplink",
    "delivery.video",
    "delivery.track",
    "delivery.image",
    "delivery.sensor",
    "sources.video",
    "sources.track",
    "sources.image",
    "sources.sensor",
    "media",
    "max_connections",
    "key_exchange",
    "log_level",
];

/// The settings that a plan may give to every hub.
const HUB_KEYS: [&str; 10] = [
    "lease",
    "max_nodes",
    "max_relays",
    "max_requests_per_node",
    "joins_per_second",
    "lookups_per_second",
    "max_watches",
    "max_connections",
    "key_exchange",
    "log_level",
];

/// Settings that a central server lacks, so that it takes no notice of them.
const SUPER_NODE_KEYS: [&str; 6] =
    ["summary_rate", "max_standbys", "media", "media_uplink", "media_layers", "media_subscribers"];

/// Settings that the emulator gives itself, and the key of the plan that decides them.
const OWN_KEYS: [(&str, &str); 16] = [
    ("stream_duration", "`stream`"),
    ("discovery", "`architecture`"),
    ("multicast", "`architecture`"),
    ("super", "`super_nodes`"),
    ("server", "`server`"),
    ("parent", "`tiers`"),
    ("sibling", "`tiers`"),
    ("tier", "`tiers`"),
    ("cache_of", "`caches`"),
    ("at", "the topology's `cell`"),
    ("services", "`classes.NAME.mix`"),
    ("listen", ""),
    ("advertise", ""),
    ("identity", ""),
    ("socket", ""),
    ("drain", ""),
];

/// A setting of daemons, as their files have it.
#[derive(Clone, Debug, PartialEq)]
pub struct DaemonSetting {
    pub key: String,
    pub value: Value,
    pub line: usize,
}

impl DaemonSetting {
    pub(crate) fn line_of_file(&self) -> String {
        format!("{} = {}", self.key, self.value)
    }

    /// The value as text: in a file of settings numbers may stand without quotes.
    pub fn text(&self) -> String {
        self.value.as_str().map_or_else(|| self.value.to_string(), str::to_owned)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct DaemonSettings {
    pub node: Vec<DaemonSetting>,
    pub hub: Vec<DaemonSetting>,
}

impl DaemonSettings {
    pub fn node_value(&self, key: &str) -> Option<&DaemonSetting> {
        self.node.iter().find(|setting| setting.key == key)
    }

    /// The settings of hubs that the hubs of this architecture have.
    pub fn for_hubs(&self, architecture: Architecture) -> impl Iterator<Item = &DaemonSetting> {
        let is_server = architecture.hub_role() == Role::Server;
        self.hub.iter().filter(move |setting| !(is_server && SUPER_NODE_KEYS.contains(&setting.key.as_str())))
    }

    pub(crate) fn node_file(&self) -> String {
        self.node.iter().map(|setting| setting.line_of_file() + "\n").collect()
    }

    pub(crate) fn hub_file(&self, architecture: Architecture) -> String {
        self.for_hubs(architecture).map(|setting| setting.line_of_file() + "\n").collect()
    }
}

/// `[settings]` in the file.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SettingsFile {
    node: BTreeMap<Spanned<String>, Value>,
    hub: BTreeMap<Spanned<String>, Value>,
}

impl SettingsFile {
    pub(super) fn read(self, lines: &PlanLines<'_>, wrong: &mut PlanErrors) -> DaemonSettings {
        let of_hubs: Vec<&str> = HUB_KEYS.iter().chain(&SUPER_NODE_KEYS).copied().collect();
        let mut settings = DaemonSettings::default();
        for (given, known, daemons, all) in [
            (self.node, &NODE_KEYS[..], "nodes", &mut settings.node),
            (self.hub, &of_hubs[..], "hubs", &mut settings.hub),
        ] {
            for (key, value) in given {
                let line = lines.line_of(key.span());
                for (key, value) in flattened(key.get_ref(), value) {
                    let is_plain = matches!(value, Value::String(_) | Value::Integer(_));
                    let told = match refusal(&key, known, daemons) {
                        Some(told) => Err(lines.error(line, told)),
                        None if !is_plain => Err(lines.error(line, format!("`{key}` is a text or a number"))),
                        None => Ok(()),
                    };
                    wrong.record_error(told);
                    all.push(DaemonSetting { key, value, line });
                }
            }
        }
        settings
    }
}

/// The reason to refuse a setting, if there is one.
fn refusal(key: &str, known: &[&str], daemons: &str) -> Option<String> {
    if known.contains(&key) {
        return None;
    }
    if let Some((_, instead)) = OWN_KEYS.iter().find(|(own, _)| *own == key) {
        let hint = if instead.is_empty() { String::new() } else { format!(": change {instead} of the plan") };
        return Some(format!("`{key}` of {daemons} is set by the emulator itself{hint}"));
    }
    let near = did_you_mean(key, known.iter().copied());
    let all = if near.is_empty() { format!(": choose {}", known.join(", ")) } else { near };
    Some(format!("`{key}` is no setting of {daemons} that a plan may give{all}"))
}

/// The values of nested tables, each under its dotted key.
fn flattened(key: &str, value: Value) -> Vec<(String, Value)> {
    match value {
        Value::Table(table) => {
            table.into_iter().flat_map(|(name, value)| flattened(&format!("{key}.{name}"), value)).collect()
        }
        value => vec![(key.to_owned(), value)],
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::Plan;
    use super::*;

    fn settings(text: &str) -> Result<DaemonSettings, String> {
        let plan = "topology = { star = { nodes = 4 } }\narchitecture = 'super-node'\nduration = '60s'\n";
        let plan = Plan::parse(&format!("{plan}{text}"), Path::new("p.toml"));
        plan.map(|plan| plan.settings).map_err(|error| error.to_string())
    }

    #[test]
    fn each_role_has_its_settings() {
        let read = settings(
            "[settings]\nnode.uplink = '1Mbit/s'\nnode.delivery.video = 'backup'\nhub.lease = '5s'\n\
                             hub.summary_rate = '96bit/s'\n",
        )
        .unwrap();
        assert_eq!(read.node_file(), "delivery.video = \"backup\"\nuplink = \"1Mbit/s\"\n");
        assert_eq!(read.hub_file(Architecture::SuperNode), "lease = \"5s\"\nsummary_rate = \"96bit/s\"\n");
        assert_eq!(read.hub_file(Architecture::ClientServer), "lease = \"5s\"\n");
        assert_eq!(read.node_value("uplink").map(DaemonSetting::text).as_deref(), Some("1Mbit/s"));
    }

    #[test]
    fn unknown_and_own_settings_are_refused() {
        let text = "[settings.hub]\nlaese = '5s'\ntier = 2\n[settings.node]\nidentity = 'x'\nuplink = true\n";
        let told = settings(text);
        let expected = "p.toml:5: `laese` is no setting of hubs that a plan may give; did you mean `lease`?\n\
                        p.toml:6: `tier` of hubs is set by the emulator itself: change `tiers` of the plan\n\
                        p.toml:8: `identity` of nodes is set by the emulator itself\n\
                        p.toml:9: `uplink` is a text or a number";
        assert_eq!(told.unwrap_err(), expected);
    }
}
