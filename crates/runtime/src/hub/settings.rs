use std::net::SocketAddr;
use std::time::Duration;

use roost_core::hub::{HubKind, Limits, OverflowPolicy, ReflectionConfig};
use roost_reflection::relay;
use roost_wire::HubName;

use crate::config::{ConfigError, Kind as Value, Setting, Settings};
use crate::media::MediaAddress;

#[derive(Clone, Debug)]
pub struct HubSettings {
    pub siblings: Vec<HubName>,
    pub parents: Vec<HubName>,
    pub tier: u8,
    /// The rate of summaries on a connection to a parent.
    pub summary_bits_per_second: u32,
    /// The time after which a record expires without a message from its node.
    pub lease: Duration,
    pub limits: Limits,
    pub relay: RelaySettings,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct RelaySettings {
    pub address: MediaAddress,
    /// Uplink for copies; `None` sets no limit.
    pub uplink_kbps: Option<u32>,
    pub layers: u8,
    pub policy: OverflowPolicy,
}

impl RelaySettings {
    pub(super) fn reflection(self, media: SocketAddr) -> ReflectionConfig {
        ReflectionConfig { media, layers: self.layers, policy: self.policy }
    }

    pub(super) fn config(self) -> relay::RelayConfig {
        let uplink = self.uplink_kbps.map(|kbps| u64::from(kbps) * 1000);
        relay::RelayConfig { uplink, ..relay::RelayConfig::for_layers(self.layers) }
    }
}

/// Shorter leases are all renewals; longer ones keep dead nodes.
const LEASES: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(24 * 3600);

/// The most parents of a super node: the first and its standby.
pub(super) const MAX_PARENTS: usize = 2;

/// The rows that a hub adds to the common settings.
pub(super) fn table(kind: HubKind) -> Vec<Setting> {
    let row = |key, kind, default: String, doc, choose| Setting { key, kind, default, doc, choose, reload: false };
    let limits = Limits::default();
    let limit = |key, max, default: usize, doc, choose| row(key, Value::Count(max), default.to_string(), doc, choose);
    let mut table = vec![
        row(
            "lease",
            Value::Duration,
            "60s".to_owned(),
            "A record expires this long after the last message from its node.",
            "Nodes renew at a third of it. A longer lease tolerates longer silence; a shorter one removes dead nodes sooner.",
        ),
        limit(
            "max_nodes",
            limits.nodes,
            limits.nodes as usize,
            "The maximum number of nodes in the directory, replicas included; the hub refuses further nodes.",
            "About 1 KB of memory each, with four services.",
        ),
        limit(
            "max_relays",
            1_000_000,
            limits.relays,
            "The maximum number of flows that the hub relays at once; it declines further requests.",
            "Each takes its share of the hub's own network interface.",
        ),
        limit(
            "max_requests_per_node",
            65_536,
            limits.requests_per_node,
            "The maximum number of pending requests of one node; the hub declines further ones.",
            "Above what a node asks for in a few seconds.",
        ),
        limit(
            "joins_per_second",
            100_000,
            limits.joins_per_second as usize,
            "The maximum number of nodes that join per second; the hub tells the others when to retry.",
            "As many as one core can handshake per second. A higher rate admits many nodes sooner but delays other messages longer.",
        ),
        limit(
            "lookups_per_second",
            10_000_000,
            limits.lookups_per_second as usize,
            "The maximum number of lookups and watches of one node per second. Every 64 examined records count as one more; a request counts as 16. The hub declines further ones and says when to retry.",
            "Above what a display asks for; a load generator needs more.",
        ),
        limit(
            "max_watches",
            65_536,
            limits.watches,
            "The maximum number of watches of all nodes; the hub declines further ones.",
            "The hub checks every watch at each publication.",
        ),
    ];
    match kind {
        HubKind::SuperNode => {
            table.extend(hierarchy_rows(row));
            table.extend(reflection(row));
        }
        HubKind::Server => table.push(row(
            "cache_of",
            Value::Hubs,
            String::new(),
            "The central server that this server is a cache of. A cache answers lookups from copies and forwards all other messages. Empty: this is the central server.",
            "For nodes that are far from the central server. Name the central server, never a cache or a super node. Put all its endpoints into one entry, separated by commas.",
        )),
    }
    table
}

/// The rows that say where a super node stands among others.
fn hierarchy_rows(row: impl Fn(&'static str, Value, String, &'static str, &'static str) -> Setting) -> [Setting; 5] {
    [
        row(
            "tier",
            Value::Count(u8::MAX.into()),
            "0".to_owned(),
            "In which tier of the hierarchy the super node stands; 0 is the lowest.",
            "Greater than the tier of each child. A child whose tier is not lower is refused, retries, and shows the reason in its `status`.",
        ),
        row(
            "parent",
            Value::Hubs,
            String::new(),
            "The parents of this super node, at most two; the second serves if the first fails. Empty: this super node is a root.",
            "The super nodes that lead to the rest of the network. Put all endpoints of one into one entry, separated by commas.",
        ),
        row(
            "sibling",
            Value::Hubs,
            String::new(),
            "The siblings of this super node: the other roots, the other homes of its area, or, without tiers, all other super nodes.",
            "One sibling is enough, since it names the others. Give two or three in case one is down at the start. An entry for the super node itself does no harm.",
        ),
        row(
            "summary_rate",
            Value::ThinRate,
            "1kbit/s".to_owned(),
            "The rate of summaries to a parent; between roots the rate is a hundred times as high.",
            "About a hundredth of the rate of the link to the parent: 96bit/s for a radio of 9.6 kbit/s.",
        ),
        row(
            "max_standbys",
            Value::Count(4_096),
            Limits::default().standby_connections.to_string(),
            "The maximum number of super nodes that this one dials because they are standbys of its nodes.",
            "0 if nodes know only siblings of this super node; more if nodes come from many areas.",
        ),
    ]
}

/// The rows that say how a super node reflects streams.
fn reflection(row: impl Fn(&'static str, Value, String, &'static str, &'static str) -> Setting) -> [Setting; 4] {
    [
        MediaAddress::setting(
            "The address at which the super node receives and reflects streams. With off it reflects none and forwards requests for copies.",
        ),
        row(
            "media_uplink",
            Value::Rate,
            "none".to_owned(),
            "The uplink rate that all copies of streams may take. The super node refuses a further subscriber and says when to retry.",
            "What the link carries, less what control and other services need; none sets no limit.",
        ),
        row(
            "media_layers",
            Value::Choice(&["1", "2"]),
            "1".to_owned(),
            "The maximum number of super nodes, besides the provider's own, that reflect a stream one after the other.",
            "2 if one super node has more subscribers than its uplink can serve. Fewer copies leave it, but each copy travels farther.",
        ),
        row(
            "media_subscribers",
            Value::Count(1_000_000),
            "0".to_owned(),
            "The maximum number of subscribers that the super node admits; 0 admits as many as media_uplink allows.",
            "0, unless every receiver takes the same.",
        ),
    ]
}

impl RelaySettings {
    /// A server lacks these settings.
    fn read(settings: &Settings) -> Result<Self, ConfigError> {
        let Some(place) = settings.optional("media")? else {
            return Ok(Self { address: MediaAddress::Off, ..Self::default() });
        };
        let policy = match settings.required("media_subscribers")? {
            0 => OverflowPolicy::Residual,
            count => OverflowPolicy::Count(count),
        };
        let (uplink_kbps, layers) = (settings.rate_kbps("media_uplink")?, settings.required("media_layers")?);
        Ok(Self { address: place, uplink_kbps, layers, policy })
    }
}

impl HubSettings {
    /// # Errors
    /// A [`ConfigError`] if a value is missing or out of bounds.
    pub fn read(settings: &Settings) -> Result<Self, ConfigError> {
        let lease = settings.duration_within("lease", LEASES)?;
        let limits = Limits {
            nodes: settings.required("max_nodes")?,
            relays: settings.required("max_relays")?,
            requests_per_node: settings.required("max_requests_per_node")?,
            joins_per_second: settings.required("joins_per_second")?,
            lookups_per_second: settings.required("lookups_per_second")?,
            watches: settings.required("max_watches")?,
            standby_connections: settings.optional("max_standbys")?.unwrap_or(Limits::default().standby_connections),
            ..Limits::default()
        };
        // A server lacks the settings of super nodes, and a super node lacks `cache_of`.
        let tier = settings.optional("tier")?.unwrap_or_default();
        let (mut parents, siblings) = (settings.hubs_up_to("parent", MAX_PARENTS)?, settings.hubs("sibling")?);
        parents.extend(settings.hubs_up_to("cache_of", 1)?);
        let rate = settings.text("summary_rate").map(|_| settings.rate_bps("summary_rate")).transpose()?;
        let summary_bits_per_second = rate.unwrap_or(1_000);
        let relay = RelaySettings::read(settings)?;
        Ok(Self { siblings, parents, tier, summary_bits_per_second, lease, limits, relay })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Layers, NamedText};

    fn read(kind: HubKind, flags: &[(&str, &str)]) -> Result<HubSettings, String> {
        let given = |(name, text): &(&str, &str)| NamedText { name: (*name).to_owned(), text: (*text).to_owned() };
        let flags = flags.iter().map(given).collect();
        let settings =
            Layers { flags, ..Layers::default() }.read(table(kind)).map_err(|errors| errors[0].to_string())?;
        HubSettings::read(&settings).map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_match_hub_limits() {
        let config = read(HubKind::Server, &[]).unwrap();
        assert_eq!((config.limits, config.lease), (Limits::default(), Duration::from_secs(60)));
        assert!(config.siblings.is_empty());
    }

    #[test]
    fn sibling_entries_hold_several_endpoints() {
        let flags = [("sibling", "udp://a:1,tcp://a:1"), ("sibling", "udp://b:1")];
        let siblings: Vec<_> =
            read(HubKind::SuperNode, &flags).unwrap().siblings.iter().map(ToString::to_string).collect();
        assert_eq!(siblings, flags.map(|(_, hub)| hub));
    }

    #[test]
    fn tier_allows_two_parents() {
        let flags = [("tier", "1"), ("parent", "udp://a:1"), ("parent", "udp://b:1"), ("summary_rate", "10kbit/s")];
        let config = read(HubKind::SuperNode, &flags).unwrap();
        assert_eq!((config.tier, config.parents.len(), config.summary_bits_per_second), (1, 2, 10_000));
        let three = [("parent", "udp://a:1"), ("parent", "udp://b:1"), ("parent", "udp://c:1")];
        assert!(read(HubKind::SuperNode, &three).unwrap_err().contains("at most 2"));
        assert!(read(HubKind::SuperNode, &[("tier", "256")]).is_err());
        let thin = read(HubKind::SuperNode, &[("summary_rate", "96bit/s")]).unwrap();
        assert_eq!(thin.summary_bits_per_second, 96, "a hundredth of a radio of 9.6 kbit/s");
    }

    #[test]
    fn join_rate_and_standbys_are_settings() {
        let limits = read(HubKind::SuperNode, &[("joins_per_second", "50"), ("max_standbys", "0")]).unwrap().limits;
        assert_eq!((limits.joins_per_second, limits.standby_connections), (50, 0));
    }

    #[test]
    fn cache_has_one_server_no_tier() {
        let config = read(HubKind::Server, &[("cache_of", "udp://a:1,tcp://a:1")]).unwrap();
        assert_eq!((config.parents.len(), config.parents[0].to_string().split(',').count()), (1, 2));
        let two = [("cache_of", "udp://a:1"), ("cache_of", "udp://b:1")];
        assert!(read(HubKind::Server, &two).unwrap_err().contains("at most 1"));
        let keys = |kind| table(kind).iter().map(|setting| setting.key).collect::<Vec<_>>();
        assert!(["tier", "parent", "sibling"].iter().all(|key| !keys(HubKind::Server).contains(key)));
        assert!(!keys(HubKind::SuperNode).contains(&"cache_of"));
    }

    #[test]
    fn useless_lease_is_rejected() {
        assert!(read(HubKind::SuperNode, &[("lease", "1ms")]).unwrap_err().contains("between 1s and 1day"));
    }
}
