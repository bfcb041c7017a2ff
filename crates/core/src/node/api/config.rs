//! The configuration of a node.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use roost_geo::Datum;
use roost_wire::random::RootSecret;
use roost_wire::{Address, Cell, DeliveryClasses, ExactPosition, Labels, NodeId, Role, ServiceSet};

/// The configuration of a node.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// The id in its certificate.
    pub node: NodeId,
    /// The name in its certificate, which it tells those on its link who ask for names.
    pub name: String,
    /// The labels in its certificate, by which the group's policy may tell members apart.
    pub labels: Labels,
    /// The time of its start, in seconds of the Unix epoch. A record of a later epoch replaces any of an
    /// earlier one, so this must not go back.
    pub epoch: u32,
    pub cell: Cell,
    /// The exact position, if it is known.
    pub position: Option<ExactPosition>,
    /// The group's datum, without which fixes of a receiver have no cell.
    pub datum: Option<Datum>,
    /// May be empty.
    pub services: ServiceSet,
    /// The hubs that it may turn to, the preferred one first; each with the
    /// addresses at which it listens, the preferred transport first. At most
    /// [`MAX_HUBS`](crate::node::MAX_HUBS) are used.
    pub hubs: Vec<Vec<Address>>,
    /// The role in the hubs' certificates: [`Role::SuperNode`] in the overlay, [`Role::Server`] in the
    /// client/server baseline, where every request is relayed.
    pub hub_role: Role,
    /// Advertised in its record: other nodes dial them.
    pub addresses: Vec<Address>,
    /// The limit of streams at once. Default of the daemons: 8. More requests are answered "busy" and go to
    /// the next provider. A reflected stream is one for each place to which this node sends it.
    pub max_streams: u16,
    /// The uplink that its streams may use together, kbit/s. Beyond it: "busy". `None` sets no limit.
    pub uplink_kbps: Option<u32>,
    /// The length of a stream that was requested without a duration. Usual: 10 s.
    pub stream_duration: Duration,
    /// The address for reflected streams; an unspecified host is filled in by its hub. `None`: it neither
    /// provides nor takes any.
    pub media: Option<SocketAddr>,
    /// Over which paths it sends what was asked for without saying that.
    pub classes: DeliveryClasses,
    /// True if it takes part in multicast on its link: answers what is asked
    /// there, and asks.
    pub multicast: bool,
    /// The way to find providers. Without `multicast` always through hubs.
    pub discovery: Discovery,
    /// Seeds its jitter and the numbers that it shows to others: request ids and
    /// the tokens of its pings.
    pub seed: u64,
    /// Nonces and tags come from it. It must not follow from `seed` in a daemon:
    /// others can compute the seed from the numbers that they are shown.
    pub secret: RootSecret,
}

/// The ways in which a node finds providers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Discovery {
    /// Through its home hub.
    #[default]
    SuperNode,
    /// By multicast on its link. Needs no hub.
    Multicast,
    /// Both at once; the first provider that accepts serves.
    Both,
    /// On the link first where the provider probably is there and the connection is
    /// quiet, through the hub first otherwise, as experience goes; the other
    /// way when the first has led to nobody.
    Auto,
}

impl Discovery {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::SuperNode, Self::Multicast, Self::Both, Self::Auto];

    /// The name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SuperNode => "supernode",
            Self::Multicast => "multicast",
            Self::Both => "both",
            Self::Auto => "auto",
        }
    }
}

impl fmt::Display for Discovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Why a text names no way of finding providers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown discovery {0:?}: expected supernode, multicast, both or auto")]
pub struct ParseDiscoveryError(String);

impl FromStr for Discovery {
    type Err = ParseDiscoveryError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|way| way.name() == text).ok_or_else(|| ParseDiscoveryError(text.to_owned()))
    }
}
