//! The work of a hub when a timer is due.

use super::registry::ExpiredRecord;
use super::timers::{HubTimer, MAX_PER_WAKE};
use super::{Hub, HubKind};

impl Hub {
    /// Serves the timers that are due, each once: what remains has the next wake.
    pub(super) fn on_timeout(&mut self) {
        let now = self.core.now;
        let mut due: Vec<HubTimer> = std::iter::from_fn(|| self.core.timers.pop(now)).collect();
        due.sort_unstable();
        for timer in due {
            self.on_timer(timer);
        }
    }

    fn on_timer(&mut self, timer: HubTimer) {
        let Self { core, registry, requests, rooms, mailbox, members, replication, progress, .. } = self;
        match timer {
            HubTimer::Lease => self.expire_leases(),
            HubTimer::Motion => {
                self.follow_records();
                self.summaries.renew_ways(&mut self.core, self.registry.records());
            }
            HubTimer::CachedRecord => registry.expire_cached(core.now),
            HubTimer::Request => self.with_requests(|requests, turn| requests.expire_requests(turn)),
            HubTimer::Relay => requests.expire_relays(core),
            HubTimer::HubLookup => {
                self.hub_lookups.expire_hub_lookups(core);
                self.answer_waiters();
            }
            HubTimer::Reservation => requests.expire_reservations(core.now),
            HubTimer::Room => rooms.poll_rooms(core),
            HubTimer::Mailbox => mailbox.poll(core),
            HubTimer::Summary => {
                self.summaries.expire_summaries(core);
                self.summaries.tell_summaries(core);
            }
            HubTimer::Watch => self.watches.offer_watches(core, self.summaries.blocks()),
            HubTimer::Mesh => self.close_silent_hubs(),
            HubTimer::Replication => replication.poll_replication(core, registry.records()),
            HubTimer::StandbyConnection => replication.poll_standby_connections(core),
            HubTimer::Claim => {
                registry.poll_claims(core);
                self.tell_record_changes();
            }
            HubTimer::Members => members.poll_members(core),
            HubTimer::Balance => {
                self.note_own_load();
                self.members.poll_balance(&mut self.core, self.registry.records());
            }
            HubTimer::Documents => core.documents.poll(core.now),
            HubTimer::Progress => progress.poll(core, registry.records()),
            HubTimer::Drain => self.end_drain(),
        }
    }

    /// Lists records in motion where they are now, if their nodes may offer there. Watchers hear of those of this hub's own
    /// nodes.
    pub(super) fn follow_records(&mut self) {
        let is_server = self.core.config.kind == HubKind::Server;
        while let Some(before) = self.registry.follow(self.core.now) {
            if self.judges_again(before.node) && self.judge_place(before.clone()) {
                continue;
            }
            let records = self.registry.records();
            if !records.is_replica(before.node) {
                self.summaries.summarize_motion(&mut self.core, records, &before);
            }
            if is_server || !records.is_replica(before.node) {
                self.watches.tell_watchers(&mut self.core, records, before.node, Some(&before));
            }
        }
    }

    fn close_silent_hubs(&mut self) {
        for connection in self.core.poll_mesh() {
            self.close(connection, "nothing was heard from the other hub");
        }
    }

    /// Sets the timer of each part to the first time that the part waits for.
    pub(super) fn plan_timers(&mut self) {
        let drain = self.drain_due();
        let Self {
            core,
            registry,
            requests,
            rooms,
            mailbox,
            hub_lookups,
            summaries,
            members,
            watches,
            replication,
            progress,
            ..
        } = self;
        let mesh = core.mesh.next_due();
        let summary = summaries.summaries_due(core);
        let documents = core.documents.next_due();
        let timers = &mut core.timers;
        registry.plan_timers(timers);
        let moves = [registry.next_follow(), summaries.next_way()];
        timers.plan(HubTimer::Motion, moves.into_iter().flatten().min());
        requests.plan_timers(timers);
        timers.plan(HubTimer::HubLookup, hub_lookups.next_expiry());
        timers.plan(HubTimer::Room, rooms.next_due());
        timers.plan(HubTimer::Mailbox, mailbox.next_due());
        timers.plan(HubTimer::Summary, summary);
        timers.plan(HubTimer::Watch, watches.next_due());
        timers.plan(HubTimer::Mesh, mesh);
        timers.plan(HubTimer::Replication, replication.next_due());
        timers.plan(HubTimer::StandbyConnection, replication.next_dial());
        timers.plan(HubTimer::Members, members.next_due());
        timers.plan(HubTimer::Balance, members.next_share());
        timers.plan(HubTimer::Documents, documents);
        timers.plan(HubTimer::Progress, progress.next_due());
        timers.plan(HubTimer::Drain, drain);
    }

    fn expire_leases(&mut self) {
        for _ in 0..MAX_PER_WAKE {
            let place = match self.registry.expire_lease(&mut self.core) {
                Some(ExpiredRecord::Own(place)) => place,
                Some(ExpiredRecord::Replica) => {
                    self.tell_record_changes();
                    continue;
                }
                None => return,
            };
            self.core.counters.expiries += 1;
            let node = place.node;
            self.on_record_removed(place, "expired");
            // Nothing came over any of its connections for a whole lease.
            for connection in self.core.remotes.connections_of(node).to_vec() {
                self.close(connection, "nothing was heard from the node for a lease");
            }
        }
    }
}
