//! Settings: one table per daemon, four layers over it.
//!
//! Flags win over the environment (`ROOST_…`), the environment over the file,
//! the file over the defaults. An unknown key is refused and the nearest known
//! one named. Every value remembers where it came from.

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

use roost_wire::Endpoint;

pub use args::{Action, Invocation, usage};
pub use common::{Common, LogFormat, settings as common_settings};
pub use layers::{Layers, ROOST_VARIABLES, default_file};
pub use render::{default_toml, reference, show};
pub use setting::{Kind, Setting};

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingOrigin {
    /// The table of settings.
    Default,
    /// This file.
    File(PathBuf),
    /// This environment variable.
    Environment(String),
    /// This flag.
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

/// Why the settings are not usable; nothing was started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file is not there or may not be read.
    #[error("cannot read the configuration {}: {reason}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// The file is no TOML.
    #[error("{} is not valid TOML at line {line}, column {column}: {reason}", .path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// In which line, from 1.
        line: usize,
        /// At which character of it, from 1.
        column: usize,
        /// Why.
        reason: String,
    },
    /// There is no such setting.
    #[error("unknown {}{}", described(.key, .origin), hint(.nearest.as_deref()))]
    Unknown {
        /// The key as written.
        key: String,
        /// Where.
        origin: SettingOrigin,
        /// The known key that is most like it.
        nearest: Option<String>,
    },
    /// A value is not of the setting's kind.
    #[error("setting {key} = {value:?} from {origin}: {reason}")]
    Value {
        /// The setting.
        key: String,
        /// The value as written.
        value: String,
        /// Where it came from.
        origin: SettingOrigin,
        /// What was expected.
        reason: String,
    },
    /// A setting that has no default is not given.
    #[error("setting {key} is missing: {advice}")]
    Missing {
        /// The setting.
        key: String,
        /// What to do.
        advice: String,
    },
    /// Two settings do not go together.
    #[error("{0}")]
    Conflict(String),
}

impl ConfigError {
    /// Whether the fault lies in the command line rather than in the configuration.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Unknown { origin: SettingOrigin::Flag(_), .. } | Self::Value { origin: SettingOrigin::Flag(_), .. }
        )
    }
}

/// An unknown key and where it stands; a variable stands nowhere else.
fn described(key: &str, origin: &SettingOrigin) -> String {
    match origin {
        SettingOrigin::Environment(variable) => format!("variable {variable:?}"),
        _ => format!("setting {key:?} in {origin}"),
    }
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map(|key| format!("; did you mean {key:?}?")).unwrap_or_default()
}

/// A daemon's settings with their values.
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

    /// The values of a list.
    pub fn texts(&self, key: &str) -> &[String] {
        self.row(key).map(|row| row.values.as_slice()).unwrap_or_default()
    }

    /// Where a setting's value came from.
    pub fn origin(&self, key: &str) -> SettingOrigin {
        self.row(key).map_or(SettingOrigin::Default, |row| row.origin.clone())
    }

    /// The value of a setting.
    ///
    /// # Errors
    /// [`ConfigError::Value`] if it is of another kind.
    pub fn optional<T: FromStr<Err: ToString>>(&self, key: &str) -> Result<Option<T>, ConfigError> {
        let parse = |text: &str| text.parse().map_err(|error: T::Err| self.wrong(key, text, error.to_string()));
        self.text(key).map(parse).transpose()
    }

    /// The value of a setting that must have one.
    ///
    /// # Errors
    /// [`ConfigError`] if it has none or it is of another kind.
    pub fn required<T: FromStr<Err: ToString>>(&self, key: &str) -> Result<T, ConfigError> {
        self.optional(key)?.ok_or_else(|| self.missing(key, "give it in the file, the environment or as a flag"))
    }

    /// All values of a list.
    ///
    /// # Errors
    /// [`ConfigError::Value`] if one is of another kind.
    pub fn list<T: FromStr<Err: ToString>>(&self, key: &str) -> Result<Vec<T>, ConfigError> {
        let parse = |text: &String| text.parse().map_err(|error: T::Err| self.wrong(key, text, error.to_string()));
        self.texts(key).iter().map(parse).collect()
    }

    /// A duration.
    ///
    /// # Errors
    /// [`ConfigError`] if it has no value or one of another kind.
    pub fn duration(&self, key: &str) -> Result<Duration, ConfigError> {
        self.read(key, units::duration)
    }

    /// A duration within bounds.
    ///
    /// # Errors
    /// The same, or that it is out of bounds.
    pub fn duration_within(&self, key: &str, bounds: RangeInclusive<Duration>) -> Result<Duration, ConfigError> {
        let duration = self.duration(key)?;
        if bounds.contains(&duration) {
            return Ok(duration);
        }
        let [least, greatest] = [bounds.start(), bounds.end()].map(|bound| humantime::format_duration(*bound));
        let value = self.text(key).unwrap_or_default();
        Err(self.wrong(key, value, format!("expected between {least} and {greatest}")))
    }

    /// A rate, kbit/s; `None` sets no limit.
    ///
    /// # Errors
    /// [`ConfigError`] if it has no value or one of another kind.
    pub fn rate_kbps(&self, key: &str) -> Result<Option<u32>, ConfigError> {
        self.read(key, units::rate_kbps)
    }

    /// A rate of a thin link in bit/s.
    ///
    /// # Errors
    /// [`ConfigError`] if it has no value or one of another kind.
    pub fn rate_bps(&self, key: &str) -> Result<u32, ConfigError> {
        self.read(key, units::rate_bps)
    }

    /// Under which endpoints others reach us.
    fn advertised(&self) -> Result<Vec<Endpoint>, ConfigError> {
        let advertised: Vec<Endpoint> = self.list("advertise")?;
        match advertised.iter().find(|endpoint| endpoint.congestion.is_some()) {
            Some(endpoint) => Err(self.wrong("advertise", &endpoint.to_string(), ONLY_LISTENING.to_owned())),
            None => Ok(advertised),
        }
    }

    /// A list of hubs with the endpoints of each.
    ///
    /// # Errors
    /// [`ConfigError::Value`] if one is malformed.
    pub fn hubs(&self, key: &str) -> Result<Vec<Vec<Endpoint>>, ConfigError> {
        let parse = |text: &String| parse_hub(text).map_err(|reason| self.wrong(key, text, reason));
        self.texts(key).iter().map(parse).collect()
    }

    /// The same, at most `most` of them.
    ///
    /// # Errors
    /// The same, or that they are more.
    pub fn hubs_up_to(&self, key: &str, most: usize) -> Result<Vec<Vec<Endpoint>>, ConfigError> {
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

    /// Takes the reloadable settings of `fresh` over.
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

/// What to say of a congestion control at an endpoint of others.
const ONLY_LISTENING: &str = "?cc= is chosen where we listen: give it to `listen`";

/// The endpoints of one hub: one, or several with commas between them.
fn parse_hub(text: &str) -> Result<Vec<Endpoint>, String> {
    let endpoints: Result<Vec<_>, _> = text.split(',').map(|part| part.trim().parse::<Endpoint>()).collect();
    let endpoints = endpoints.map_err(|error| error.to_string())?;
    match endpoints.iter().any(|endpoint| endpoint.congestion.is_some()) {
        true => Err(ONLY_LISTENING.to_owned()),
        false => Ok(endpoints),
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
