//! Room for copies of streams in the uplink of a hub.

/// Room for copies, as a hub has it or tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CopyRoom {
    Kbps(u32),
    Unlimited,
}

impl CopyRoom {
    /// Reads what [`HubLoad`](roost_wire::messages::HierarchyMessage::HubLoad) tells, which writes no limit as the
    /// greatest number.
    pub(super) const fn from_wire(kbps: u32) -> Self {
        if kbps == u32::MAX { Self::Unlimited } else { Self::Kbps(kbps) }
    }

    pub(super) const fn to_wire(self) -> u32 {
        match self {
            Self::Kbps(kbps) => kbps,
            Self::Unlimited => u32::MAX,
        }
    }

    /// True if a copy of this rate fits in.
    pub(super) fn has(self, kbps: u32) -> bool {
        self >= Self::Kbps(kbps)
    }
}
