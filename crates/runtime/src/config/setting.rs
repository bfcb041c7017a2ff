//! The description of a setting for the file, the environment, the flags, the commented default file and the reference
//! page.

use std::net::SocketAddr;

use roost_wire::{Cell, Endpoint, Service};

use super::units;

/// A row of a daemon's table of settings.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The name in the file. The flag has `-` for `_` and `.`, the environment variable is `ROOST_` and the name in
    /// capitals.
    pub key: &'static str,
    pub kind: Kind,
    /// Empty if the setting has no default.
    pub default: String,
    /// The meaning, in a sentence.
    pub doc: &'static str,
    /// Advice on the choice of a value.
    pub choose: &'static str,
    /// True if SIGHUP applies a changed value.
    pub reload: bool,
}

#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Kind {
    /// A file or folder.
    Path,
    /// A word of this list.
    Choice(&'static [&'static str]),
    Duration,
    /// A rate with its unit, or `none`.
    Rate,
    /// A rate of a thin link with its unit, to the bit.
    ThinRate,
    /// A whole number from 0 to this one.
    Count(u32),
    Cell,
    SocketAddr,
    Endpoints,
    /// A list of hubs. The endpoints of a hub are separated by commas.
    Hubs,
    Services,
    /// Values that another crate reads.
    Other {
        /// The name in the reference.
        name: &'static str,
        /// Fails with the reason that a text is no value.
        check: fn(&str) -> Result<(), String>,
        /// A value for the default file.
        example: &'static str,
    },
}

impl Setting {
    pub fn flag(&self) -> String {
        self.key.replace(['_', '.'], "-")
    }

    pub fn variable(&self) -> String {
        format!("ROOST_{}", self.key.replace('.', "_").to_uppercase())
    }

    pub fn default_texts(&self) -> Vec<String> {
        self.kind.split(&self.default)
    }
}

impl Kind {
    /// The name in the reference and in `--help`.
    pub fn name(self) -> String {
        match self {
            Self::Path => "path".to_owned(),
            Self::Choice(words) => words.join("|"),
            Self::Duration => "duration".to_owned(),
            Self::Rate | Self::ThinRate => "rate".to_owned(),
            Self::Count(_) => "number".to_owned(),
            Self::Cell => "X,Y".to_owned(),
            Self::SocketAddr => "IP:PORT".to_owned(),
            Self::Endpoints => "list of endpoints".to_owned(),
            Self::Hubs => "list of hubs".to_owned(),
            Self::Services => "list of services".to_owned(),
            Self::Other { name, .. } => name.to_owned(),
        }
    }

    /// A value such as a person might give, for settings without a default; `None` if the kind suggests none.
    pub fn example(self) -> Option<&'static str> {
        match self {
            Self::Path => Some("/etc/roost/revoked.pem"),
            Self::Cell => Some("27,92"),
            Self::SocketAddr => Some("127.0.0.1:9107"),
            Self::Endpoints => Some("udp://node1.example:7700"),
            Self::Hubs => Some("udp://sn1.example:7700"),
            Self::Services => Some("video sensor"),
            Self::Other { example, .. } => Some(example),
            Self::Choice(_) | Self::Duration | Self::Rate | Self::ThinRate | Self::Count(_) => None,
        }
    }

    /// True if a setting of this kind has any number of values.
    pub fn is_list(self) -> bool {
        matches!(self, Self::Endpoints | Self::Hubs | Self::Services)
    }

    /// Splits a text of the environment or of a flag into values: at spaces, or also at commas where a comma has no
    /// other meaning.
    pub fn split(self, text: &str) -> Vec<String> {
        let parts: Vec<&str> = match self {
            Self::Endpoints | Self::Services => text.split([',', ' ']).collect(),
            Self::Hubs => text.split(' ').collect(),
            _ => vec![text],
        };
        parts.into_iter().map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }

    /// Checks that a text is a value of this kind.
    ///
    /// # Errors
    /// A clause that says which values are expected.
    pub fn check(self, text: &str) -> Result<(), String> {
        match self {
            Self::Path => Ok(()),
            Self::Choice(words) if words.contains(&text) => Ok(()),
            Self::Choice(words) => Err(format!("expected one of {}", words.join(", "))),
            Self::Duration => units::duration(text).map(drop),
            Self::Rate => units::rate_kbps(text).map(drop),
            Self::ThinRate => units::rate_bps(text).map(drop),
            Self::Count(max) => count(text, max),
            Self::Cell => text.parse::<Cell>().map(drop).map_err(|error| error.to_string()),
            Self::SocketAddr => text
                .parse::<SocketAddr>()
                .map(drop)
                .map_err(|_| "expected an IP address and a port, such as 127.0.0.1:9100".to_owned()),
            Self::Endpoints => text.parse::<Endpoint>().map(drop).map_err(|error| error.to_string()),
            Self::Hubs => super::parse_hub(text).map(drop),
            Self::Services => text.parse::<Service>().map(drop).map_err(|error| error.to_string()),
            Self::Other { check, .. } => check(text),
        }
    }
}

fn count(text: &str, max: u32) -> Result<(), String> {
    match text.parse::<u32>() {
        Ok(number) if number <= max => Ok(()),
        _ => Err(format!("expected a whole number from 0 to {max}")),
    }
}
