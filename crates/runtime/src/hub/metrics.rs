use prometheus::{Error, IntCounterVec, IntGauge, Opts};
use roost_core::hub::{HubCounters, HubLimit, HubStatus, Relation, RequestOutcome};
use roost_wire::Service;
use roost_wire::messages::RequestMode;

use super::status_rows::connected;
use crate::metrics::{CounterRow, CounterSet, Metrics, follow};

#[derive(Clone)]
pub(super) struct HubMetrics {
    gauges: Vec<(IntGauge, Size)>,
    counters: CounterSet<HubCounters>,
    over_limit: IntCounterVec,
    requests: IntCounterVec,
    outcomes: IntCounterVec,
}

type Size = fn(&HubStatus) -> usize;

const GAUGES: [(&str, &str, Size); 20] = [
    ("roost_hub_nodes", "Nodes whose home the hub is.", |s| s.nodes),
    (
        "roost_hub_replicas",
        "Nodes of other hubs whose records it holds: as their standby, or as the server of their cache.",
        |s| s.replicas,
    ),
    ("roost_hub_cached", "Nodes of other hubs whose records this cache holds.", |s| s.cached),
    ("roost_hub_entries", "Entries in the directory: a service at a place.", |s| s.entries),
    ("roost_hub_directory_bytes", "What the directory takes up, by computation.", |s| s.directory_bytes),
    ("roost_hub_pending_requests", "Requests remembered.", |s| s.requests),
    ("roost_hub_relays", "Flows relayed at the moment.", |s| s.relays),
    ("roost_hub_mailbox_files", "Sealed files that wait for nodes.", |s| s.mailbox_files),
    ("roost_hub_mailbox_bytes", "Bytes of these files, in memory.", |s| s.mailbox_bytes),
    ("roost_hub_watches", "Watches held.", |s| s.watches),
    ("roost_hub_pending_hub_lookups", "Hub lookups under way.", |s| s.hub_lookups),
    ("roost_hub_connected_hubs", "Other super nodes connected.", |s| connected(s, |_| true)),
    ("roost_hub_configured_down", "Super nodes of the configuration that are not connected.", |s| {
        s.hubs.iter().filter(|hub| hub.up.is_none()).count()
    }),
    ("roost_hub_members", "Other super nodes in the group, as the group knows them.", |s| s.members.len()),
    ("roost_hub_children", "Super nodes below this one.", |s| connected(s, |r| matches!(r, Relation::Child(_)))),
    ("roost_hub_parents", "Parents connected.", |s| connected(s, |r| r == Relation::Parent)),
    ("roost_hub_tier", "In which tier the hub stands.", |s| s.tier.into()),
    ("roost_hub_block_services", "Block services known from other super nodes.", |s| s.block_services),
    ("roost_hub_cut_off", "1 while no configured parent is connected.", |s| usize::from(s.cut_off)),
    ("roost_hub_warming_up", "1 while the hub is younger than one lease.", |s| usize::from(s.young)),
];

const COUNTERS: [CounterRow<HubCounters>; 50] = [
    CounterRow("roost_hub_searches_total", "Searches of the directory.", |c| c.searches),
    CounterRow("roost_hub_publishes_total", "Records that were new or had changed.", |c| c.publishes),
    CounterRow("roost_hub_renews_total", "Renewals of a held version.", |c| c.renews),
    CounterRow("roost_hub_unknown_renews_total", "Renewals of a version that was not held.", |c| c.unknown_renews),
    CounterRow("roost_hub_withdrawals_total", "Records withdrawn by their nodes.", |c| c.withdrawals),
    CounterRow("roost_hub_expiries_total", "Records whose lease ended.", |c| c.expiries),
    CounterRow("roost_hub_claimed_total", "Records that went to another hub.", |c| c.claimed),
    CounterRow("roost_hub_adoptions_total", "Nodes that adopted their standby here as their home.", |c| c.adoptions),
    CounterRow("roost_hub_replica_updates_sent_total", "Messages to standbys.", |c| c.replica_updates_sent),
    CounterRow("roost_hub_retry_after_total", "Times that a node was told to publish later.", |c| c.postponed),
    CounterRow("roost_hub_full_total", "Records refused because the directory was full.", |c| c.full),
    CounterRow("roost_hub_malformed_total", "Messages that could not be read.", |c| c.malformed),
    CounterRow("roost_hub_unknown_messages_total", "Messages of later versions, which were skipped.", |c| {
        c.newer_version
    }),
    CounterRow("roost_hub_refused_by_role_total", "Messages that the sender's role does not allow.", |c| {
        c.refused_by_role
    }),
    CounterRow(
        "roost_hub_forbidden_total",
        "Records, watches, entries into rooms and relayed flows that the group's policy does not allow.",
        |c| c.forbidden,
    ),
    CounterRow("roost_hub_foreign_publishes_total", "Records that somebody else tried to publish.", |c| {
        c.foreign_records
    }),
    CounterRow("roost_hub_unknown_flow_total", "Messages of flows that the hub does not know.", |c| c.stray),
    CounterRow("roost_hub_forwards_total", "Requests handed to providers.", |c| c.forwards),
    CounterRow("roost_hub_repeats_total", "Requests handed to the same provider again.", |c| c.repeats),
    CounterRow("roost_hub_suspensions_total", "Providers held back because they stayed silent.", |c| c.suspensions),
    CounterRow("roost_hub_failures_total", "Providers ranked last because they did not serve.", |c| c.failures),
    CounterRow("roost_hub_hub_lookups_answered_total", "Searches of other super nodes that were answered.", |c| {
        c.hub_lookups_answered
    }),
    CounterRow("roost_hub_omitted_hub_lookups_total", "Searches of which another super node gets the answer.", |c| {
        c.hub_lookups_omitted
    }),
    CounterRow("roost_hub_hub_lookups_sent_total", "Hub lookups sent to other super nodes.", |c| c.hub_lookups_sent),
    CounterRow("roost_hub_partial_hub_lookups_total", "Hub lookups that not all super nodes answered in time.", |c| {
        c.hub_lookups_partial
    }),
    CounterRow("roost_hub_routed_requests_total", "Requests passed on to another super node.", |c| c.requests_routed),
    CounterRow("roost_hub_hedges_total", "Requests that a super node did not confirm in time.", |c| c.hop_timeouts),
    CounterRow("roost_hub_cache_hits_total", "Lookups that a cache answered from what the server had told it.", |c| {
        c.cache_hits
    }),
    CounterRow("roost_hub_negative_cache_hits_total", "Requests answered by \"there is none\" from memory.", |c| {
        c.negatives
    }),
    CounterRow("roost_hub_summaries_sent_total", "Summaries sent to parents and to the roots that own a block.", |c| {
        c.summaries_sent
    }),
    CounterRow("roost_hub_block_services_sent_total", "Block services in sent summaries.", |c| c.block_services_sent),
    CounterRow("roost_hub_summaries_received_total", "Summaries received from children and roots.", |c| {
        c.summaries_heard
    }),
    CounterRow("roost_hub_relayed_flows_total", "Flows relayed.", |c| c.relays),
    CounterRow("roost_hub_relayed_messages_total", "Messages relayed.", |c| c.relayed_messages),
    CounterRow("roost_hub_relayed_bytes_total", "Bytes of messages relayed, counted once.", |c| c.relayed_bytes),
    CounterRow("roost_hub_overruns_total", "Flows ended because their provider sent more than it may.", |c| c.overruns),
    CounterRow("roost_hub_redirects_total", "New nodes sent to a super node that has fewer.", |c| c.redirects),
    CounterRow("roost_hub_moves_total", "Nodes sent to a super node that has joined.", |c| c.rebalanced),
    CounterRow("roost_hub_gossip_messages_total", "Messages of membership sent to other super nodes.", |c| {
        c.gossip_sent
    }),
    CounterRow("roost_hub_gossip_bytes_total", "Bytes of these messages.", |c| c.gossip_bytes),
    CounterRow("roost_hub_grants_total", "Copies of streams that the relay may send.", |c| c.grants),
    CounterRow("roost_hub_saturated_total", "Requests for a copy of a stream for which there was no room.", |c| {
        c.saturated
    }),
    CounterRow("roost_hub_keys_stored_total", "Sealed stream keys that the hub stored.", |c| c.keys_stored),
    CounterRow("roost_hub_keys_handed_total", "Sealed stream keys that the hub forwarded.", |c| c.keys_handed),
    CounterRow("roost_hub_keys_expired_total", "Sealed stream keys that expired.", |c| c.keys_expired),
    CounterRow("roost_hub_mailbox_kept_total", "Sealed files taken for nodes.", |c| c.mailbox_kept),
    CounterRow("roost_hub_mailbox_delivered_total", "Sealed files that their receivers took or refused.", |c| {
        c.mailbox_delivered
    }),
    CounterRow("roost_hub_mailbox_handed_total", "Sealed files handed to the receiver's home.", |c| c.mailbox_handed),
    CounterRow("roost_hub_mailbox_expired_total", "Sealed files whose end came.", |c| c.mailbox_expired),
    CounterRow("roost_hub_changes_total", "Changes sent to watchers.", |c| c.changes),
];

const MODES: [(RequestMode, &str); 3] =
    [(RequestMode::Forward, "forward"), (RequestMode::Relay, "relay"), (RequestMode::Lookup, "lookup")];

impl HubMetrics {
    pub(super) fn register(metrics: &Metrics) -> Result<Self, Error> {
        let gauges = GAUGES
            .into_iter()
            .map(|(name, help, value)| Ok((metrics.register(IntGauge::new(name, help)?)?, value)))
            .collect::<Result<_, Error>>()?;
        let over_limit = Opts::new("roost_hub_over_limit_total", "Declined or dropped because of a limit, the cause.");
        let requests = Opts::new("roost_hub_requests_total", "Requests received.");
        let outcomes = Opts::new("roost_hub_request_outcomes_total", "Outcomes of requests.");
        Ok(Self {
            gauges,
            counters: CounterSet::register(metrics, &COUNTERS)?,
            over_limit: metrics.register(IntCounterVec::new(over_limit, &["cause"])?)?,
            requests: metrics.register(IntCounterVec::new(requests, &["service", "mode"])?)?,
            outcomes: metrics.register(IntCounterVec::new(outcomes, &["service", "mode", "outcome"])?)?,
        })
    }

    pub(super) fn update(&self, status: &HubStatus, counters: &HubCounters) {
        for (gauge, value) in &self.gauges {
            gauge.set(value(status) as i64);
        }
        self.counters.update(counters);
        for limit in HubLimit::ALL {
            follow(&self.over_limit.with_label_values(&[limit.name()]), counters.over_limit(limit));
        }
        for service in Service::ALL {
            for (mode, name) in MODES {
                self.update_requests(counters, service, mode, name);
            }
        }
    }

    fn update_requests(&self, counters: &HubCounters, service: Service, mode: RequestMode, name: &str) {
        follow(&self.requests.with_label_values(&[service.metric_name(), name]), counters.requests(service, mode));
        for outcome in RequestOutcome::ALL {
            let total = counters.outcomes(service, mode, outcome);
            // Most combinations never happen.
            if total > 0 {
                follow(&self.outcomes.with_label_values(&[service.metric_name(), name, outcome.name()]), total);
            }
        }
    }
}
