//! Audit records: who did what and when, as JSON lines in a file. Each line has the digest of the line before, so a line
//! that was changed, removed or moved is found later.
//!
//! An [`AuditLog`] appends to a file and rotates it; processes may share one. An [`AuditRecorder`] does so on a thread of
//! its own, so that no daemon waits for a disk. [`verify()`] reads a chain of files.
//!
//! The chain proves nothing against who can write the files and computes all later lines anew, nor that the last lines
//! are still there. Against both helps the digest of a line that is kept elsewhere.
//!
//! ```
//! use roost_audit::{AuditEvent, AuditKind, AuditLog, Limits, verify};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! let path = dir.path().join("audit.log");
//! let mut log = AuditLog::open(&path, Limits::default())?;
//! log.append(&[AuditEvent::new(AuditKind::Started), AuditEvent::new(AuditKind::Stopped).with("clean", true)])?;
//! let report = verify(&[path], None)?;
//! assert_eq!((report.records, report.faults.len()), (2, 0));
//! # Ok(())
//! # }
//! ```
#![allow(missing_docs, reason = "only crates of this workspace import it")]

mod log;
mod newest;
mod record;
mod recorder;
mod verify;

pub use log::{AuditLog, Limits};
pub use newest::newest;
pub use record::{AuditEvent, AuditKind, AuditRecord, Who};
pub use recorder::AuditRecorder;
pub use verify::{AuditFault, AuditReport, read, verify};
