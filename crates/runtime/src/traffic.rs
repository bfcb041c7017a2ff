use std::sync::atomic::{AtomicU64, Ordering};

use roost_core::Traffic;

/// Counts the messages that a machine has sent, by class, before sealing and framing.
#[derive(Debug, Default)]
pub struct TrafficBytes {
    sent: [AtomicU64; Traffic::ALL.len()],
    messages: [AtomicU64; Traffic::ALL.len()],
}

impl TrafficBytes {
    pub fn add(&self, class: Traffic, bytes: usize) {
        self.sent[class as usize].fetch_add(bytes as u64, Ordering::Relaxed);
        self.messages[class as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub fn sent(&self, class: Traffic) -> u64 {
        self.sent[class as usize].load(Ordering::Relaxed)
    }

    pub fn messages(&self, class: Traffic) -> u64 {
        self.messages[class as usize].load(Ordering::Relaxed)
    }
}
