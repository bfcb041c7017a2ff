//! Members that have gone are remembered as long as they are in debt, so that nobody is better off for
//! coming anew.

use std::collections::BTreeMap;
use std::time::Duration;

use roost_wire::{NodeId, Time};

use crate::address_filter::DialAllowance;

/// Time that a member which has gone is remembered.
const MEMORY: Duration = Duration::from_secs(60);

/// The most members remembered. Who owes least makes room.
const MAX_REMEMBERED: usize = 4_096;

/// All that a member has used up of what it may ask of the hub.
#[derive(Clone, Copy, Debug)]
pub(super) struct QuotaUsage {
    /// Limits the dials of others to hosts that it names and at which it is not seen.
    pub(super) allowance: DialAllowance,
    /// Time up to which its allowance to trouble others is used up.
    pub(super) charged: Time,
    /// Time up to which its allowance of questions is used up.
    pub(super) tolled: Time,
}

impl QuotaUsage {
    pub(super) fn none(now: Time) -> Self {
        Self { allowance: DialAllowance::default(), charged: now, tolled: now }
    }

    /// The order in which members owe.
    fn ahead(&self) -> (Time, u64) {
        (self.tolled.max(self.charged), self.allowance.spent())
    }
}

/// The debts of those that have gone.
#[derive(Debug, Default)]
pub(super) struct DepartedUsage {
    gone: BTreeMap<NodeId, (Time, QuotaUsage)>,
}

impl DepartedUsage {
    pub(super) fn keep(&mut self, now: Time, node: NodeId, debt: QuotaUsage) {
        if debt.tolled.max(debt.charged) <= now && debt.allowance.spent() == 0 {
            return;
        }
        self.gone.insert(node, (now, debt));
        if self.gone.len() > MAX_REMEMBERED {
            self.gone.retain(|_, (since, _)| now.since(*since) < MEMORY);
        }
        if self.gone.len() > MAX_REMEMBERED {
            let least = self.gone.iter().min_by_key(|(_, (_, debt))| debt.ahead()).map(|(node, _)| *node);
            if let Some(node) = least {
                self.gone.remove(&node);
            }
        }
    }

    /// A member is here, perhaps again.
    pub(super) fn take_usage(&mut self, now: Time, node: NodeId) -> QuotaUsage {
        let kept = self.gone.remove(&node).filter(|(since, _)| now.since(*since) < MEMORY);
        kept.map_or_else(|| QuotaUsage::none(now), |(_, debt)| debt)
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::address_filter::{DialedHosts, NamedDial};
    use roost_wire::address::Scheme;

    fn node(number: u32) -> NodeId {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        NodeId::from_bytes(bytes)
    }

    fn owing(seconds: u64) -> QuotaUsage {
        QuotaUsage { tolled: Time::ZERO + Duration::from_secs(seconds), ..QuotaUsage::none(Time::ZERO) }
    }

    #[test]
    fn debt_is_kept_for_a_minute() {
        let mut debts = DepartedUsage::default();
        debts.keep(Time::ZERO, node(1), owing(300));
        debts.keep(Time::ZERO, node(2), owing(300));
        let later = |seconds| Time::ZERO + Duration::from_secs(seconds);
        assert_eq!(debts.take_usage(later(59), node(1)).tolled, later(300));
        assert_eq!(debts.take_usage(later(59), node(1)).tolled, later(59), "it is taken along");
        assert_eq!(debts.take_usage(later(60), node(2)).tolled, later(60));
    }

    #[test]
    fn departed_node_keeps_dial_usage() {
        let (mut debts, mut debt, mut targets) =
            (DepartedUsage::default(), QuotaUsage::none(Time::ZERO), DialedHosts::default());
        let host = IpAddr::from([10, 0, 0, 9]);
        let dial = NamedDial { member: node(1), scheme: Scheme::Tcp, host, on_credit: false };
        let now = Time::ZERO + Duration::from_secs(1);
        for admitted in [true, false] {
            assert_eq!(targets.admit(now, &mut debt.allowance, dial), admitted);
            debts.keep(now, node(1), debt);
            debt = debts.take_usage(now, node(1));
        }
    }

    #[test]
    fn who_owes_least_makes_room() {
        let mut debts = DepartedUsage::default();
        debts.keep(Time::ZERO, node(0), owing(3_000));
        debts.keep(Time::ZERO, node(1), owing(1));
        for number in 2..10_000 {
            debts.keep(Time::ZERO, node(number), owing(2));
            debts.keep(Time::ZERO, node(number + 100_000), owing(0));
        }
        assert_eq!(debts.gone.len(), MAX_REMEMBERED);
        assert!(debts.gone.contains_key(&node(0)) && !debts.gone.contains_key(&node(1)));
    }
}
