//! Which congestion control TCP has in hosts.
//!
//! A namespace begins with the system's own, so that the same experiment gives
//! other figures on the next machine. Hosts have CUBIC instead, Linux's default
//! (RFC 9438), where the system lets a namespace choose it: it does so for
//! those in `net.ipv4.tcp_allowed_congestion_control`.

use std::fmt;
use std::io;
use std::str::FromStr;
use std::thread;

use super::LabError;
use super::namespace::{self, Namespace};

/// The longest name, as the kernel has it.
const MAX_NAME: usize = 15;

/// Which congestion control TCP has in hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Tcp {
    /// CUBIC where a namespace may choose it, else the system's.
    #[default]
    Cubic,
    /// The system's.
    System,
    /// This one, or there is no lab.
    Named(String),
}

/// What became of the choice.
#[derive(Debug)]
pub(crate) struct Chosen {
    /// What each host is given; without it they have the system's.
    pub(crate) given: Option<String>,
    /// For the record of a run.
    pub(crate) fact: String,
}

impl Tcp {
    /// Tries it in a namespace of its own.
    pub(crate) fn choose(&self) -> Result<Chosen, LabError> {
        let cannot = |error| LabError::kernel("look at TCP in a namespace", error);
        let wanted = match self {
            Self::Cubic => Some("cubic"),
            Self::System => None,
            Self::Named(name) => Some(name.as_str()),
        };
        let (refused, has) = attempt(wanted).map_err(cannot)?;
        match (self, wanted, refused) {
            (Self::Named(name), _, Some(error)) => Err(LabError::System(format!(
                "no host can have the TCP congestion control {name} ({error}): it has to be in \
                 net.ipv4.tcp_allowed_congestion_control, which `sudo sysctl -w` sets"
            ))),
            (_, Some(name), None) => Ok(Chosen { given: Some(name.to_owned()), fact: has }),
            (_, Some(name), Some(_)) => {
                let fact = format!("{has}, the system's: it does not let namespaces have {name}");
                Ok(Chosen { given: None, fact })
            }
            (_, None, _) => Ok(Chosen { given: None, fact: format!("{has}, the system's") }),
        }
    }
}

/// Why it was refused, if it was, and what a namespace has then.
fn attempt(wanted: Option<&str>) -> io::Result<(Option<io::Error>, String)> {
    let body = || {
        Namespace::create()?;
        let refused = wanted.and_then(|name| namespace::set_tcp(name).err());
        Ok((refused, namespace::tcp()?))
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, body)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

impl FromStr for Tcp {
    type Err = String;

    /// Reads `cubic`, `system`, or another name.
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

impl fmt::Display for Tcp {
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
    fn names_are_read_as_they_are_written() {
        for text in ["cubic", "system", "reno", "dctcp"] {
            assert_eq!(text.parse::<Tcp>().map(|tcp| tcp.to_string()).as_deref(), Ok(text));
        }
        for text in ["", "../../x", "Reno", "a-name-too-long-"] {
            assert!(text.parse::<Tcp>().unwrap_err().contains("names no TCP congestion control"), "{text}");
        }
    }
}
