//! The settings that every daemon has.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use roost_identity::KeyExchange;
use roost_wire::Endpoint;

use super::{ConfigError, Kind, Setting, Settings};

/// The common settings with their values.
#[derive(Clone, Debug)]
pub struct Common {
    pub identity: PathBuf,
    /// The revocation list, if it is not in that folder.
    pub revocations: Option<PathBuf>,
    /// `HOST:PORT` of the group's authority; `None` if the operator renews the certificate.
    pub authority: Option<String>,
    pub listen: Vec<Endpoint>,
    /// The endpoints at which others reach this daemon; empty for those of `listen`.
    pub advertise: Vec<Endpoint>,
    pub key_exchange: KeyExchange,
    pub socket: PathBuf,
    /// The address of metrics and health over HTTP; `None` serves neither.
    pub metrics: Option<SocketAddr>,
    /// The address of the live page; `None` serves none.
    pub http: Option<SocketAddr>,
    /// The address of video for players, of a node only.
    pub rtsp: Option<SocketAddr>,
    /// The files of the tokens for the page and for players.
    pub http_token: Option<PathBuf>,
    pub rtsp_token: Option<PathBuf>,
    pub log_format: LogFormat,
    /// A level, or directives of `tracing-subscriber`.
    pub log_level: String,
    /// The longest duration of a shutdown.
    pub drain: Duration,
    /// The file of audit records; `None` keeps none.
    pub audit: Option<PathBuf>,
    pub max_connections: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

/// The table of the common settings. `daemon` names the control socket, `port` is the default port.
pub fn settings(daemon: &str, port: u16) -> Vec<Setting> {
    let row = |key, kind, default: String, doc, choose, reload| Setting { key, kind, default, doc, choose, reload };
    vec![
        row(
            "identity",
            Kind::Path,
            "/etc/roost/identity".to_owned(),
            "Folder with the certificate, key and CA certificate that `roost group issue` wrote.",
            "One per daemon; readable by the daemon's user only.",
            false,
        ),
        row(
            "revocations",
            Kind::Path,
            String::new(),
            "The group's signed revocation list; empty means the one in the identity's folder. SIGHUP reads it again.",
            "A path of its own where a tool distributes the list.",
            false,
        ),
        row(
            "authority",
            Kind::Other { name: "HOST:PORT", check: check_authority, example: "10.0.0.1:7703" },
            String::new(),
            "The group's authority, at which the daemon renews its certificate; empty means that the operator renews it.",
            "`roost join` writes it. The daemon must be able to write the identity's folder and the one around it.",
            false,
        ),
        row(
            "listen",
            Kind::Endpoints,
            format!("udp://[::]:{port} tcp://[::]:{port} quic://[::]:{}", quic_port(port)),
            "Endpoints to listen on: udp://HOST:PORT, tcp://HOST:PORT, quic://HOST1+HOST2:PORT, quic://HOST:PORT?cc=cubic.",
            "Leave out a transport that the network does not carry. The host [::] means all addresses of this host, IPv6 and IPv4. Port 0 lets the system choose. The congestion control (rate by default, cubic, udt or bbr) applies to all QUIC connections of this address.",
            false,
        ),
        row(
            "advertise",
            Kind::Endpoints,
            String::new(),
            "Endpoints at which others reach this daemon; empty means the `listen` ports at the address that others see.",
            "Needed behind address translation or where the outer port differs.",
            false,
        ),
        row(
            "key_exchange",
            Kind::Choice(&["hybrid", "classic"]),
            "hybrid".to_owned(),
            "Key exchange of tcp and quic: hybrid (X25519 with ML-KEM-768, which withstands a quantum computer) or classic (X25519). udp is always classic.",
            "classic on a link so thin that 2.4 KB for each new connection matter. A handshake is hybrid if both sides have hybrid; otherwise they connect with classic.",
            false,
        ),
        row(
            "socket",
            Kind::Path,
            default_socket(daemon).display().to_string(),
            "Unix socket of the local API, which the `roost` command and curl talk to.",
            "Its folder is made if it is not there; members of the daemon's group may use it.",
            false,
        ),
        row(
            "metrics",
            Kind::SocketAddr,
            String::new(),
            "Address for /metrics, /healthz, /readyz and /status over HTTP; empty means only on the Unix socket.",
            "127.0.0.1:9107 for a Prometheus on the same host; it is not encrypted, so no public address.",
            false,
        ),
        row(
            "http",
            Kind::SocketAddr,
            String::new(),
            "Address of the live page, which browsers open; empty serves none.",
            "127.0.0.1:7790 for the browsers of this host; give `http_token`, too, if it has users who may not see everything. \
             Any other address is served over TLS and needs `http_token`.",
            false,
        ),
        row(
            "http_token",
            Kind::Path,
            String::new(),
            "File with the token of those who may open the page; made with a random one if it is not there.",
            "Needed as soon as other hosts reach the page. Open it as https://HOST:PORT/?token=TOKEN once.",
            false,
        ),
        row(
            "log_format",
            Kind::Choice(&["text", "json"]),
            "text".to_owned(),
            "Form of the log on standard error.",
            "json for machines. Under journald the lines carry no time of their own.",
            false,
        ),
        row(
            "log_level",
            Kind::Choice(&["error", "warn", "info", "debug", "trace"]),
            "info".to_owned(),
            "The least important level that is logged.",
            "info tells what an operator wants to know; trace writes a line per packet.",
            true,
        ),
        row(
            "audit",
            Kind::Path,
            String::new(),
            "File of audit records: members that come and go, refusals, requests granted, documents; empty keeps none.",
            "/var/lib/roost/audit.log under systemd. It is rotated at 16 MiB; with seven older files it takes 128 MiB at most.",
            false,
        ),
        row(
            "drain",
            Kind::Duration,
            "10s".to_owned(),
            "How long a shutdown may take to withdraw and to finish what is under way.",
            "Longer than a round trip to the hub; a service manager's own limit must be longer still.",
            true,
        ),
        row(
            "max_connections",
            Kind::Count(1_000_000),
            "20000".to_owned(),
            "The maximum number of connections; the daemon refuses a further remote.",
            "A hub needs one per attached node: about 16 KB of memory each over udp, and a file descriptor over tcp.",
            false,
        ),
    ]
}

fn check_authority(text: &str) -> Result<(), String> {
    roost_identity::check_authority(text).map_err(|error| error.to_string())
}

/// QUIC and DTLS are both UDP and cannot share a port.
const fn quic_port(port: u16) -> u16 {
    if port == 0 { 0 } else { port + 1 }
}

/// The control socket in the user's run-time folder, else in the system's.
fn default_socket(daemon: &str) -> PathBuf {
    let base = std::env::var_os("XDG_RUNTIME_DIR").map_or_else(|| PathBuf::from("/run"), PathBuf::from);
    Path::new(&base).join("roost").join(format!("{daemon}.sock"))
}

impl Common {
    /// # Errors
    /// [`ConfigError`] if one is missing or malformed.
    pub fn read(settings: &Settings) -> Result<Self, ConfigError> {
        Ok(Self {
            identity: settings.required("identity")?,
            revocations: settings.optional("revocations")?,
            authority: settings.optional("authority")?,
            listen: settings.list("listen")?,
            advertise: settings.advertised()?,
            key_exchange: settings.required("key_exchange")?,
            socket: settings.required("socket")?,
            metrics: settings.optional("metrics")?,
            http: settings.optional("http")?,
            rtsp: settings.optional("rtsp")?,
            http_token: settings.optional("http_token")?,
            rtsp_token: settings.optional("rtsp_token")?,
            log_format: if settings.text("log_format") == Some("json") { LogFormat::Json } else { LogFormat::Text },
            log_level: settings.required("log_level")?,
            audit: settings.optional("audit")?,
            drain: settings.duration("drain")?,
            max_connections: settings.required("max_connections")?,
        })
    }
}
