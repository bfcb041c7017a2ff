//! Recordings of a running overlay, as `roost record` writes them and `emulate twin` reads them: JSON lines.
//!
//! A recording is that of one host. Each line has the time since its beginning, which no change of a clock moves, and
//! the wall clock, by which the recordings of several hosts are aligned. Fields are only ever added.

#![allow(missing_docs, reason = "a comment stands where it says more than the name")]

mod daemon_recorder;
mod line;
mod read;
mod redaction;

pub use daemon_recorder::DaemonRecorder;
pub use line::{ConnectionLine, DaemonLine, RecordingLine, StampedLine, TrafficLine, VERSION};
pub use read::{MAX_LINE_BYTES, MAX_LINES, ReadError, Recording, parse, read};
pub use redaction::Redaction;
