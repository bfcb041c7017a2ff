//! One setting: everything that the file, the environment, the flags, the
//! commented default file and the reference page need to know of it.

use std::net::SocketAddr;

use roost_wire::{Cell, Endpoint, Service};

use super::units;

/// One row of a daemon's table of settings.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Its name in the file. The flag has `-` for `_` and `.`, the environment
    /// variable is `ROOST_` and the name in capitals.
    pub key: &'static str,
    /// What its values look like.
    pub kind: Kind,
    /// What holds when nobody says otherwise; empty if nothing does.
    pub default: String,
    /// What it means, in a sentence.
    pub doc: &'static str,
    /// How to choose it.
    pub choose: &'static str,
    /// Whether SIGHUP takes a changed value over.
    pub reload: bool,
}

/// What a setting's values look like.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Kind {
    /// A file or folder.
    Path,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A duration with its unit.
    Duration,
    /// A rate with its unit, or `none`.
    Rate,
    /// A rate of a thin link with its unit, to the bit.
    ThinRate,
    /// A whole number from 0 to this one.
    Count(u32),
    /// A cell of the grid.
    Cell,
    /// An IP address and a port.
    SocketAddr,
    /// A list of endpoints.
    Endpoints,
    /// A list of hubs, each one endpoint, or several of the same hub with
    /// commas between them.
    Hubs,
    /// A list of services.
    Services,
    /// What another crate knows how to read.
    Other {
        /// Its name in the reference.
        name: &'static str,
        /// Says what is wrong with a text.
        check: fn(&str) -> Result<(), String>,
        /// A value, for the default file.
        example: &'static str,
    },
}

impl Setting {
    /// The flag, without the dashes.
    pub fn flag(&self) -> String {
        self.key.replace(['_', '.'], "-")
    }

    /// The environment variable.
    pub fn variable(&self) -> String {
        format!("ROOST_{}", self.key.replace('.', "_").to_uppercase())
    }

    /// The default as a list of texts.
    pub fn default_texts(&self) -> Vec<String> {
        self.kind.split(&self.default)
    }
}

impl Kind {
    /// Its name in the reference and in `--help`.
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

    /// A value such as a person might give, where the kind alone suggests one;
    /// for settings that have no default.
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

    /// Whether a setting of this kind has any number of values.
    pub fn is_list(self) -> bool {
        matches!(self, Self::Endpoints | Self::Hubs | Self::Services)
    }

    /// A text of the environment or of a flag as single values: a list is
    /// separated by spaces, or by commas where a comma means nothing else.
    pub fn split(self, text: &str) -> Vec<String> {
        let parts: Vec<&str> = match self {
            Self::Endpoints | Self::Services => text.split([',', ' ']).collect(),
            Self::Hubs => text.split(' ').collect(),
            _ => vec![text],
        };
        parts.into_iter().map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }

    /// Whether a text is a value of this kind.
    ///
    /// # Errors
    /// One clause that says what was expected.
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
