//! Loads on their way: how many nodes this hub has, told to the other members, and what they tell.

use roost_wire::NodeId;
use roost_wire::messages::HierarchyMessage;

use super::Members;
use super::load::HubLoad;
use crate::hub::copy_room::CopyRoom;
use crate::hub::core::HubCore;
use crate::hub::sender::Sender;

/// Said in place of a number by a hub that leaves.
const LEAVING: u32 = u32::MAX;

impl Members {
    /// Tells the other members how many leases and what room there are, if that
    /// has changed by enough to matter.
    pub(crate) fn announce_load(&mut self, core: &mut HubCore) {
        let now = core.now;
        if self.reach.is_empty() {
            return self.loads.stop_announcing();
        }
        if self.loads.is_announcement_due(now, self.own) {
            for node in self.nodes().collect::<Vec<_>>() {
                self.send_load(core, node);
            }
        }
    }

    pub(crate) fn send_load(&mut self, core: &mut HubCore, to: NodeId) {
        let leases = if core.leaving.is_some() { LEAVING } else { self.own.leases as u32 };
        let residual_kbps = self.own.room.map(CopyRoom::to_wire);
        core.send_to_hub(to, HierarchyMessage::HubLoad { leases, residual_kbps });
    }

    /// Another member says how many leases it has, and what room.
    pub(crate) fn handle_load(&mut self, core: &mut HubCore, from: Sender, leases: u32, residual_kbps: Option<u32>) {
        let leases = Some(leases).filter(|leases| *leases != LEAVING);
        self.loads.record(from.node, HubLoad { leases, room: residual_kbps.map(CopyRoom::from_wire) });
        core.mesh.set_departing(from.node, leases.is_none());
        self.welcome(core, from.node);
    }

    /// A hub says that one more node is with it.
    pub(crate) fn count_arrival(&mut self, hub: NodeId, node: NodeId) {
        self.loads.count_node(hub);
        self.record_arrival(node);
    }

    /// Gives a member that has joined its share, once it has said what it has.
    pub(crate) fn welcome(&mut self, core: &mut HubCore, node: NodeId) {
        let said = self.loads.has(node);
        let Some(reach) = self.reach.get_mut(&node).filter(|_| said) else { return };
        if std::mem::take(&mut reach.fresh) {
            self.share_with(core, node);
        }
    }
}
