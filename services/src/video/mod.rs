//! Video: MPEG transport streams, or RTP.

pub mod ts;
