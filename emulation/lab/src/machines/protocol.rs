//! Messages between the command and the agents on other machines.
//!
//! A message is two lengths of four bytes, its head in JSON, and a body of bytes: `length of head, length of body, head,
//! body`.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use roost_results::record::LinkRecord;
use serde::{Deserialize, Serialize};

use crate::Usage;
use crate::carrier::{Lateness, WireCounts};
use crate::linktest::{LinktestFlow, LinktestTrace};
use crate::trunk::{LineCounts, TrunkSettings};

pub(crate) const PROTOCOL: u32 = 1;
/// The longest head or body: a trace in its longest form.
pub(crate) const MAX_BYTES: u32 = 128 << 20;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Message {
    Hello(Hello),
    Call {
        id: u64,
        call: AgentCall,
    },
    Answer {
        id: u64,
        answer: Result<Answer, String>,
    },
    /// Bytes of a connection, or of a program's messages, in the body.
    Data {
        id: u64,
    },
    End {
        id: u64,
    },
    /// The end of a program, with its status as the system gives it.
    Exited {
        id: u64,
        status: i32,
    },
    Beat,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) protocol: u32,
    pub(crate) version: String,
    pub(crate) port: u16,
    /// The agent's own address as SSH names it.
    pub(crate) address: Option<std::net::IpAddr>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AgentCall {
    Start(Box<StartCall>),
    /// Begins the schedule at this time of the agent's carrier, in nanoseconds.
    Begin {
        at: u64,
    },
    Counters,
    Observe,
    Put {
        path: PathBuf,
    },
    Spawn(SpawnCall),
    Signal {
        process: u64,
        signal: i32,
    },
    /// Connects to a Unix socket; the call's id is the connection's.
    Connect {
        path: PathBuf,
    },
    OpenProbes,
    Probe(ProbeCall),
    EndProbes,
    Stop {
        drain: Duration,
    },
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StartCall {
    /// The topology as a file, with all addresses.
    pub(crate) topology: String,
    pub(crate) seed: u64,
    pub(crate) backend: String,
    pub(crate) realtime: bool,
    /// The congestion control that the command's machine chose; `None` keeps the system's.
    pub(crate) tcp: Option<String>,
    /// By host, its machine, and by net the one that carries it.
    pub(crate) hosts: Vec<usize>,
    pub(crate) carriers: Vec<usize>,
    pub(crate) trunk: TrunkSettings,
}

/// A program; the call's id names it from now on.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SpawnCall {
    pub(crate) host: usize,
    pub(crate) program: String,
    pub(crate) args: Vec<String>,
    /// A socket that an earlier process may have left.
    pub(crate) socket: PathBuf,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ProbeCall {
    pub(crate) token: u64,
    pub(crate) ports: Vec<u16>,
    pub(crate) flows: Vec<LinktestFlow>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Answer {
    Done,
    Started {
        interfaces: Vec<String>,
        facts: BTreeMap<String, String>,
        warnings: Vec<String>,
    },
    Links(Vec<LinkRecord>),
    Observed(Box<Observation>),
    /// By host; 0 for those of other machines.
    Ports(Vec<u16>),
    Traces(Vec<LinktestTrace>),
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Observation {
    pub(crate) lateness: Lateness,
    pub(crate) unread: Lateness,
    pub(crate) overruns: u64,
    pub(crate) wires: Vec<WireCounts>,
    pub(crate) lines: Vec<LineCounts>,
    /// By process, as the call that started it numbered it.
    pub(crate) usages: BTreeMap<u64, Usage>,
    /// Connections that ended because a queue was full.
    pub(crate) overflows: u64,
}

#[derive(Debug)]
pub(crate) struct Packet {
    pub(crate) message: Message,
    pub(crate) body: Vec<u8>,
}

impl Packet {
    pub(crate) fn write(message: &Message, body: &[u8], to: &mut impl Write) -> io::Result<()> {
        let head = serde_json::to_vec(message)?;
        let length = |bytes: &[u8]| {
            let length = u32::try_from(bytes.len()).ok().filter(|length| *length <= MAX_BYTES);
            length.ok_or_else(|| io::Error::other("a message is too long"))
        };
        let mut bytes = Vec::with_capacity(8 + head.len() + body.len());
        bytes.extend_from_slice(&length(&head)?.to_be_bytes());
        bytes.extend_from_slice(&length(body)?.to_be_bytes());
        bytes.extend_from_slice(&head);
        bytes.extend_from_slice(body);
        to.write_all(&bytes)?;
        to.flush()
    }

    /// The next message; `None` at the end.
    pub(crate) fn read(from: &mut impl Read) -> io::Result<Option<Self>> {
        let mut lengths = [0; 8];
        if from.read(&mut lengths[..1])? == 0 {
            return Ok(None);
        }
        from.read_exact(&mut lengths[1..])?;
        let [a, b, c, d, e, f, g, h] = lengths;
        let (head, body) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
        if head > MAX_BYTES || body > MAX_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the other side does not speak our protocol"));
        }
        let message = serde_json::from_slice(&read_bytes(from, head)?)?;
        Ok(Some(Self { message, body: read_bytes(from, body)? }))
    }
}

/// Reads so many bytes; memory grows only as they come.
fn read_bytes(from: &mut impl Read, length: u32) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(u64::from(length)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == u64::from(length) { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// True if a path stays inside the folder that it is relative to.
pub(crate) fn stays_inside(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn messages_return_as_written() {
        let mut bytes = Vec::new();
        Packet::write(&Message::Data { id: 7 }, b"body", &mut bytes).unwrap();
        Packet::write(&Message::Call { id: 8, call: AgentCall::Observe }, b"", &mut bytes).unwrap();
        let mut from = &bytes[..];
        let first = Packet::read(&mut from).unwrap().unwrap();
        assert!(matches!(first.message, Message::Data { id: 7 }));
        assert_eq!(first.body, b"body");
        assert!(matches!(
            Packet::read(&mut from).unwrap().unwrap().message,
            Message::Call { id: 8, call: AgentCall::Observe }
        ));
        assert!(Packet::read(&mut from).unwrap().is_none());
    }

    #[test]
    fn other_speech_is_refused() {
        for text in ["Welcome to machine b!\n", "\0\0\0\u{1}\0\0\0\0x", "short"] {
            assert!(Packet::read(&mut text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn outer_paths_are_refused() {
        assert!(stays_inside(Path::new("run/a.id/key")));
        for outside in ["/etc/passwd", "../x", "run/../../x"] {
            assert!(!stays_inside(Path::new(outside)), "{outside}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = Packet::read(&mut &bytes[..]);
        }
    }
}
