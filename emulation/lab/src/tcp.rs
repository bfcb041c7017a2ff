//! The congestion control of TCP in hosts.
//!
//! A namespace begins with the system's own, so that one experiment would give different figures on different
//! machines. Hosts use CUBIC instead, Linux's default (RFC 9438), if the system lets a namespace choose it:
//! those in `net.ipv4.tcp_allowed_congestion_control` can be chosen. Otherwise hosts use Reno, which every
//! kernel has and allows, and the lab warns.

use std::fmt;
use std::io;
use std::str::FromStr;
use std::thread;

use super::LabError;
use super::namespace::{self, Namespace};

/// The longest name that the kernel accepts.
const MAX_NAME: usize = 15;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TcpCongestion {
    /// CUBIC if a namespace may choose it, else Reno, else the system's.
    #[default]
    Cubic,
    System,
    /// This one, or the lab does not start.
    Named(String),
}

#[derive(Debug)]
pub(crate) struct ChosenCongestion {
    /// The congestion control to set in each host; `None` keeps the system's.
    pub(crate) given: Option<String>,
    pub(crate) fact: String,
    /// A warning if hosts do not have the usual one.
    pub(crate) warning: Option<String>,
}

/// The usual choices, best first.
const USUAL: [&str; 2] = ["cubic", "reno"];

impl TcpCongestion {
    pub(crate) fn choose(&self) -> Result<ChosenCongestion, LabError> {
        match self {
            Self::Cubic => usual(|name| attempt(Some(name))),
            Self::System => Ok(ChosenCongestion::system_default(&attempt(None)?.1)),
            Self::Named(name) => match attempt(Some(name))? {
                (None, has) => Ok(ChosenCongestion { given: Some(name.clone()), fact: has, warning: None }),
                (Some(error), _) => Err(LabError::System(format!(
                    "no host can have the TCP congestion control {name} ({error}): it has to be in \
                     net.ipv4.tcp_allowed_congestion_control, which `sudo sysctl -w` sets"
                ))),
            },
        }
    }
}

impl ChosenCongestion {
    fn system_default(has: &str) -> Self {
        Self { given: None, fact: format!("{has}, the system's"), warning: None }
    }
}

/// The best of the usual ones that `attempt` accepts.
fn usual(
    attempt: impl Fn(&str) -> Result<(Option<io::Error>, String), LabError>,
) -> Result<ChosenCongestion, LabError> {
    let [best, ..] = USUAL;
    let mut system = String::new();
    for name in USUAL {
        let (refused, has) = attempt(name)?;
        if refused.is_none() && name == best {
            return Ok(ChosenCongestion { given: Some(name.to_owned()), fact: has, warning: None });
        }
        if refused.is_none() {
            let fact = format!("{has}: the system does not let namespaces have {best}");
            return Ok(ChosenCongestion { given: Some(name.to_owned()), warning: Some(warning(name)), fact });
        }
        system = has;
    }
    let fact = format!("{system}, the system's: it does not let namespaces have {}", USUAL.join(" or "));
    Ok(ChosenCongestion { given: None, warning: Some(warning(&system)), fact })
}

fn warning(has: &str) -> String {
    format!(
        "TCP in hosts has {has}, since this system does not let namespaces have cubic: \
         as root, add cubic to net.ipv4.tcp_allowed_congestion_control with `sysctl -w`"
    )
}

/// The refusal, if there was one, and the congestion control that the namespace has then.
fn attempt(wanted: Option<&str>) -> Result<(Option<io::Error>, String), LabError> {
    let body = || {
        Namespace::create()?;
        let refused = wanted.and_then(|name| namespace::set_tcp(name).err());
        Ok((refused, namespace::tcp()?))
    };
    let result = thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, body)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    result.map_err(|error: io::Error| LabError::kernel("look at TCP in a namespace", error))
}

impl FromStr for TcpCongestion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-');
        match text {
            "cubic" => Ok(Self::Cubic),
            "system" => Ok(Self::System),
            _ if (1..=MAX_NAME).contains(&text.len()) && text.chars().all(is_plain) => Ok(Self::Named(text.to_owned())),
            _ => Err(format!("`{text}` names no TCP congestion control: write cubic, system, or one such as reno")),
        }
    }
}

impl fmt::Display for TcpCongestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cubic => "cubic",
            Self::System => "system",
            Self::Named(name) => name,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_congestion_control_falls_back_loudly() {
        let chosen = |allowed: &'static [&str]| {
            let attempt = |name: &str| match allowed.contains(&name) {
                true => Ok((None, name.to_owned())),
                false => Ok((Some(io::ErrorKind::PermissionDenied.into()), "bbr".to_owned())),
            };
            usual(attempt).unwrap()
        };
        let cubic = chosen(&["reno", "cubic"]);
        assert_eq!((cubic.given.as_deref(), cubic.fact.as_str(), cubic.warning), (Some("cubic"), "cubic", None));
        let reno = chosen(&["reno"]);
        assert_eq!(reno.given.as_deref(), Some("reno"));
        assert!(reno.fact.starts_with("reno: ") && reno.warning.unwrap().contains("has reno, since"), "{}", reno.fact);
        let system = chosen(&[]);
        assert_eq!(system.given, None);
        assert!(system.fact.starts_with("bbr, the system's: ") && system.warning.unwrap().contains("has bbr"));
    }

    #[test]
    fn names_parse_as_displayed() {
        for text in ["cubic", "system", "reno", "dctcp"] {
            assert_eq!(text.parse::<TcpCongestion>().map(|tcp| tcp.to_string()).as_deref(), Ok(text));
        }
        for text in ["", "../../x", "Reno", "a-name-too-long-"] {
            assert!(text.parse::<TcpCongestion>().unwrap_err().contains("names no TCP congestion control"), "{text}");
        }
    }
}
