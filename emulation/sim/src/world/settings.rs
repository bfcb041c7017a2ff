//! Settings of daemons that machines in virtual time have.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use roost_core::hub::HubConfig;
use roost_core::node::NodeConfig;
use roost_experiment::Prepared;
use roost_experiment::plan::{DaemonSetting, PlanError};
use roost_topology::units::{Rate, parse_duration};
use roost_wire::{DeliveryClass, NodeId};

use crate::SimulateError;

/// The leases that a hub may have, as in its daemon.
const LEASES: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(24 * 3600);

/// Checks that the simulator's machines have all settings of a plan.
///
/// # Errors
/// All that they lack, and all wrong values.
pub fn check_settings(prepared: &Prepared) -> Result<(), SimulateError> {
    let settings = &prepared.plan.settings;
    if settings.node.is_empty() && settings.hub.is_empty() {
        return Ok(());
    }
    let kind = super::configuration::hub_kind(prepared);
    let mut hub = HubConfig::new(NodeId::from_bytes([0; 16]), kind, 0);
    let of_hubs = settings.for_hubs(prepared.plan.architecture).map(|setting| (setting, apply_hub(setting, &mut hub)));
    let mut node = NodeSettings::default();
    let of_nodes = settings.node.iter().map(|setting| (setting, node.apply(setting)));
    let wrong = |(setting, applied): (&DaemonSetting, Result<(), String>)| {
        let message = applied.err()?;
        let file = prepared.file.clone();
        Some(PlanError { file, line: setting.line, message, others: Vec::new() })
    };
    let mut all: Vec<PlanError> = of_hubs.filter_map(wrong).collect();
    all.extend(of_nodes.filter_map(wrong));
    all.sort_by_key(|mistake| mistake.line);
    let mut all = all.into_iter();
    match all.next() {
        None => Ok(()),
        Some(first) => Err(SimulateError::Run(PlanError { others: all.collect(), ..first }.into())),
    }
}

/// Gives a hub the settings of the plan, which [`check_settings`] has accepted.
pub(super) fn configure_hub(prepared: &Prepared, config: &mut HubConfig) {
    for setting in prepared.plan.settings.for_hubs(prepared.plan.architecture) {
        let applied = apply_hub(setting, config);
        debug_assert!(applied.is_ok(), "{applied:?}");
    }
}

/// Gives a node the settings of the plan, which [`check_settings`] has accepted.
pub(super) fn configure_node(prepared: &Prepared, config: &mut NodeConfig) {
    let mut settings = NodeSettings::default();
    for setting in &prepared.plan.settings.node {
        let applied = settings.apply(setting);
        debug_assert!(applied.is_ok(), "{applied:?}");
    }
    config.max_streams = settings.max_streams.unwrap_or(config.max_streams);
    config.uplink_kbps = settings.uplink_kbps.or(config.uplink_kbps);
    config.classes = settings.classes;
}

fn apply_hub(setting: &DaemonSetting, config: &mut HubConfig) -> Result<(), String> {
    let limits = &mut config.limits;
    match setting.key.as_str() {
        "lease" => {
            let lease = parse_duration(&setting.text()).map_err(|error| error.to_string())?;
            let within = Some(lease).filter(|lease| LEASES.contains(lease));
            config.lease = within.ok_or("a lease is between 1s and 24h")?;
        }
        "summary_rate" => {
            config.summary_bits_per_second =
                u32::try_from(rate(setting)?.bps()).map_err(|_| "a rate of summaries is at most 4Gbit".to_owned())?;
        }
        "max_nodes" => limits.nodes = whole(setting)?,
        "max_relays" => limits.relays = whole(setting)?,
        "max_requests_per_node" => limits.requests_per_node = whole(setting)?,
        "max_connections" => limits.connections = whole(setting)?,
        "joins_per_second" => limits.joins_per_second = whole(setting)?,
        "lookups_per_second" => limits.lookups_per_second = whole(setting)?,
        "max_watches" => limits.watches = whole(setting)?,
        "max_standbys" => limits.standby_connections = whole(setting)?,
        _ => return Err(lacking("hubs", setting)),
    }
    Ok(())
}

#[derive(Default)]
struct NodeSettings {
    max_streams: Option<u16>,
    uplink_kbps: Option<u32>,
    classes: roost_wire::DeliveryClasses,
}

impl NodeSettings {
    fn apply(&mut self, setting: &DaemonSetting) -> Result<(), String> {
        match setting.key.as_str() {
            "max_streams" => self.max_streams = Some(whole(setting)?),
            "uplink" if setting.text() == "none" => {}
            "uplink" => {
                let kbps = rate(setting)?.bps() / 1_000;
                let kbps = u32::try_from(kbps).ok().filter(|kbps| *kbps > 0);
                self.uplink_kbps = Some(kbps.ok_or("an uplink is between 1kbit and 4000Gbit, or none")?);
            }
            "delivery.video" => self.classes.video = class(setting)?,
            "delivery.track" => self.classes.track = class(setting)?,
            "delivery.image" => self.classes.image = class(setting)?,
            "delivery.sensor" => self.classes.sensor = class(setting)?,
            _ => return Err(lacking("nodes", setting)),
        }
        Ok(())
    }
}

fn lacking(machines: &str, setting: &DaemonSetting) -> String {
    format!("simulated {machines} have no setting `{}`: run it with the real daemons, or leave it out", setting.key)
}

fn whole<T: FromStr>(setting: &DaemonSetting) -> Result<T, String> {
    let DaemonSetting { key, .. } = setting;
    setting.text().parse().map_err(|_| format!("`{key}` is a whole number within its limits, not {}", setting.text()))
}

fn rate(setting: &DaemonSetting) -> Result<Rate, String> {
    setting.text().parse().map_err(|error: <Rate as FromStr>::Err| error.to_string())
}

fn class(setting: &DaemonSetting) -> Result<DeliveryClass, String> {
    fn told(error: impl Display) -> String {
        error.to_string()
    }
    setting.text().parse().map_err(told)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{Detail, simulate};

    fn prepared(settings: &str) -> Prepared {
        let plan = "topology = { star = { nodes = 4, delay = '5ms' } }\narchitecture = 'super-node'\nduration = '9s'\n";
        Prepared::from_text(&format!("{plan}{settings}"), Path::new("p.toml")).unwrap()
    }

    #[test]
    fn machines_follow_the_settings() {
        let outcome = |settings: &str| simulate(&prepared(settings), Detail::default()).unwrap();
        let usual = outcome("");
        assert_ne!(outcome("settings.hub.lease = '3s'\n").trace_hash, usual.trace_hash);
        let busy = outcome("settings.node.uplink = '1kbit/s'\n").by_service["video"].clone();
        assert!(busy.completed == 0 && usual.by_service["video"].completed > 0, "{busy:?}");
    }

    #[test]
    fn foreign_settings_are_refused() {
        let told = |settings: &str| check_settings(&prepared(settings)).unwrap_err().to_string();
        let text = "[settings.hub]\nmedia = 'off'\nlease = '1ms'\n[settings.node]\nmax_streams = 'x'\n";
        let lines: Vec<String> = told(text).lines().map(str::to_owned).collect();
        assert_eq!(
            lines[0],
            "p.toml:5: simulated hubs have no setting `media`: run it with the real daemons, or leave it out"
        );
        assert_eq!(lines[1], "p.toml:6: a lease is between 1s and 24h");
        assert!(lines[2].starts_with("p.toml:8: `max_streams` is a whole number"), "{lines:?}");
    }
}
