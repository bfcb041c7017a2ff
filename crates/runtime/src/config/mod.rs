//! Settings: one table per daemon, four layers over it.
//!
//! Flags win over the environment (`ROOST_…`), the environment over the file, the file over the defaults. An unknown
//! key is refused and the nearest known key is named. Every value has its origin.

mod args;
mod common;
mod layers;
mod render;
mod setting;
pub mod units;

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use roost_wire::address::ParseHubError;
use roost_wire::{Endpoint, HubName};

pub use args::{Action, Invocation, usage};
pub use common::{Common, LogFormat, settings as common_settings};
pub use layers::{Layers, NamedText, ROOST_VARIABLES, default_file};
pub use render::{default_toml, reference, show};
pub use setting::{Kind, Setting};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingOrigin {
    Default,
    File(PathBuf),
    Environment(String),
    Flag(String),
}

impl std::fmt::Display for SettingOrigin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Environment(variable) => f.write_str(variable),
            Self::Flag(flag) => write!(f, "--{flag}"),
        }
    }
}

/// An error of the settings. Nothing was started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file is absent or not readable.
    #[error("cannot read the configuration {}: {reason}", .path.display())]
    Unreadable { path: PathBuf, reason: String },
    #[error("{} is not valid TOML at line {line}, column {column}: {reason}", .path.display())]
    Syntax {
        path: PathBuf,
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        reason: String,
    },
    #[error("unknown {}{}", described(.key, .origin), hint(.nearest.as_deref()))]
    Unknown {
        key: String,
        origin: SettingOrigin,
        /// The most similar known key.
        nearest: Option<String>,
    },
    /// A value is not of the setting's kind.
    #[error("setting {key} = {value:?} from {origin}: {reason}")]
    Value { key: String, value: String, origin: SettingOrigin, reason: String },
    /// A setting without a default has no value.
    #[error("setting {key} is missing: {advice}")]
    Missing { key: String, advice: String },
    #[error("{0}")]
    Conflict(String),
}

impl ConfigError {
    /// True if the fault lies in the command line rather than in the configuration.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Unknown { origin: SettingOrigin::Flag(_), .. } | Self::Value { origin: SettingOrigin::Flag(_), .. }
        )
    }
}

/// An unknown key and its origin. A variable names its origin itself.
fn described(key: &str, origin: &SettingOrigin) -> String {
    match origin {
        SettingOrigin::Environment(variable) => format!("variable {variable:?}"),
        _ => format!("setting {key:?} in {origin}"),
    }
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map(|key| format!("; did you mean {key:?}?")).unwrap_or_default()
}

#[derive(Clone, Debug)]
pub struct Settings {
    rows: Vec<ResolvedSetting>,
}

#[derive(Clone, Debug)]
struct ResolvedSetting {
    setting: Setting,
    values: Vec<String>,
    origin: SettingOrigin,
}

impl Settings {
    /// The value of a setting as text; `None` if it has none.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.row(key).and_then(|row| row.values.first()).map(String::as_str)
    }

    pub fn texts(&self, key: &str) -> &[String] {
        self.row(key).map(|row| row.values.as_slice()).unwrap_or_default()
    }

    pub fn origin(&self, key: &str) -> SettingOrigin {
        self.row(key).map_or(SettingOrigin::Default, |row| row.origin.clone())
    }

    /// Reads the value of a setting, if it has one.
    ///
    /// # Errors
    /// [`ConfigError::Value`] if it is of another kind.
    pub fn optional<T: FromStr<Err: ToString>>(&self, key: &str) -> Result<Option<T>, ConfigError> {
        let parse = |text: &str| text.parse().map_err(|error: T::Err| self.wrong(key, text, error.to_string()));
        self.text(key).map(parse).transpose()
    }

    /// Reads the value of a setting that must have one.
    ///
    /// # Errors
    /// [`ConfigError`] if it has none or it is of another kind.
    pub fn required<T: FromStr<Err: ToString>>(&self, key: &str) -> Result<T, ConfigError> {
        self.optional(key)?.ok_or_else(|| self.missing(key, "give it in the file, the environment or as a flag"))
    }

    /// # Errors
    /// [`ConfigError::Value`] if a value is of another kind.
    pub fn list<T: FromStr<Err: ToString>>(&self, key: &str) -> Result<Vec<T>, ConfigError> {
        let parse = |text: &String| text.parse().map_err(|error: T::Err| self.wrong(key, text, error.to_string()));
        self.texts(key).iter().map(parse).collect()
    }

    /// # Errors
    /// [`ConfigError`] if it has no value or one of another kind.
    pub fn duration(&self, key: &str) -> Result<Duration, ConfigError> {
        self.read(key, units::duration)
    }

    /// # Errors
    /// As [`Self::duration`], and if the duration is out of bounds.
    pub fn duration_within(&self, key: &str, bounds: RangeInclusive<Duration>) -> Result<Duration, ConfigError> {
        let duration = self.duration(key)?;
        if bounds.contains(&duration) {
            return Ok(duration);
        }
        let [least, greatest] = [bounds.start(), bounds.end()].map(|bound| humantime::format_duration(*bound));
        let value = self.text(key).unwrap_or_default();
        Err(self.wrong(key, value, format!("expected between {least} and {greatest}")))
    }

    /// Reads a rate; `None` is no limit.
    ///
    /// # Errors
    /// [`ConfigError`] if it has no value or one of another kind.
    pub fn rate_kbps(&self, key: &str) -> Result<Option<u32>, ConfigError> {
        self.read(key, units::rate_kbps)
    }

    /// Reads the rate of a thin link, bit/s.
    ///
    /// # Errors
    /// [`ConfigError`] if it has no value or one of another kind.
    pub fn rate_bps(&self, key: &str) -> Result<u32, ConfigError> {
        self.read(key, units::rate_bps)
    }

    /// Reads the endpoints at which others reach this daemon.
    fn advertised(&self) -> Result<Vec<Endpoint>, ConfigError> {
        let advertised: Vec<Endpoint> = self.list("advertise")?;
        match advertised.iter().find(|endpoint| endpoint.congestion.is_some()) {
            Some(endpoint) => Err(self.wrong("advertise", &endpoint.to_string(), ONLY_LISTENING.to_owned())),
            None => Ok(advertised),
        }
    }

    /// Reads a list of hubs, by endpoints or by service records.
    ///
    /// # Errors
    /// [`ConfigError::Value`] if a hub is malformed.
    pub fn hubs(&self, key: &str) -> Result<Vec<HubName>, ConfigError> {
        let parse = |text: &String| parse_hub(text).map_err(|reason| self.wrong(key, text, reason));
        self.texts(key).iter().map(parse).collect()
    }

    /// As [`Self::hubs`], for at most `most` hubs.
    ///
    /// # Errors
    /// As [`Self::hubs`], and if there are more.
    pub fn hubs_up_to(&self, key: &str, most: usize) -> Result<Vec<HubName>, ConfigError> {
        match self.texts(key).get(most) {
            Some(first_too_many) => Err(self.wrong(key, first_too_many, format!("expected at most {most} of them"))),
            None => self.hubs(key),
        }
    }

    fn read<T>(&self, key: &str, parse: fn(&str) -> Result<T, String>) -> Result<T, ConfigError> {
        let text = self.text(key).ok_or_else(|| self.missing(key, "give it a value with its unit"))?;
        parse(text).map_err(|reason| self.wrong(key, text, reason))
    }

    fn missing(&self, key: &str, advice: &str) -> ConfigError {
        ConfigError::Missing { key: key.to_owned(), advice: advice.to_owned() }
    }

    fn wrong(&self, key: &str, value: &str, reason: String) -> ConfigError {
        ConfigError::Value { key: key.to_owned(), value: value.to_owned(), origin: self.origin(key), reason }
    }

    fn row(&self, key: &str) -> Option<&ResolvedSetting> {
        self.rows.iter().find(|row| row.setting.key == key)
    }

    /// Takes over the reloadable settings of `fresh`.
    pub fn adopt_reloadable(&mut self, fresh: &Self) {
        for row in self.rows.iter_mut().filter(|row| row.setting.reload) {
            if let Some(theirs) = fresh.row(row.setting.key) {
                row.values.clone_from(&theirs.values);
                row.origin.clone_from(&theirs.origin);
            }
        }
    }

    /// The settings whose values differ from those of `other`.
    pub fn changed<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a Setting> {
        let differs =
            |row: &&ResolvedSetting| other.row(row.setting.key).is_none_or(|theirs| theirs.values != row.values);
        self.rows.iter().filter(differs).map(|row| &row.setting)
    }
}

/// The error of a congestion control at a remote's endpoint.
const ONLY_LISTENING: &str = "?cc= is chosen where we listen: give it to `listen`";

fn parse_hub(text: &str) -> Result<HubName, String> {
    let hub: HubName = text.parse().map_err(|error: ParseHubError| error.to_string())?;
    match &hub {
        HubName::Endpoints(endpoints) if endpoints.iter().any(|endpoint| endpoint.congestion.is_some()) => {
            Err(ONLY_LISTENING.to_owned())
        }
        HubName::Endpoints(_) | HubName::Srv(_) => Ok(hub),
    }
}

#[cfg(test)]
mod tests {
    use super::parse_hub;

    #[test]
    fn hub_endpoint_rejects_congestion_control() {
        assert!(parse_hub("quic://sn1:7701,udp://sn1:7700").is_ok());
        assert!(parse_hub("quic://sn1:7701?cc=rate").unwrap_err().contains("give it to `listen`"));
    }
}
