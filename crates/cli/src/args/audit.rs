//! The flags of the commands about audit records.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::value;

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    #[command(subcommand)]
    pub(crate) command: AuditCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Find records that were changed, removed or moved; exit code 7 if there are any
    #[command(before_help = "Examples:
  roost audit verify /var/lib/roost/audit.log*
  roost audit verify ./grove/audit.log --tip 2c26b46b…
")]
    Verify(AuditVerifyArgs),
    /// Print records: all of them, or those of a time or a kind
    #[command(before_help = "Examples:
  roost audit show /var/lib/roost/audit.log --since 1h
  roost audit show ./grove/audit.log* --kind certificate-issued --json
")]
    Show(AuditShowArgs),
}

#[derive(Debug, Args)]
pub(crate) struct AuditVerifyArgs {
    /// The files of one log, in any order
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// The digest that an earlier verification printed for the last record; without it a missing end is not noticed
    #[arg(long, value_name = "HASH")]
    pub(crate) tip: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct AuditShowArgs {
    /// The files of one log, in any order
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Only records of this time up to now
    #[arg(long, value_name = "TIME", value_parser = value::validity)]
    pub(crate) since: Option<Duration>,
    /// Only records of this kind, such as member-joined; may be given several times
    #[arg(long = "kind", value_name = "KIND")]
    pub(crate) kinds: Vec<String>,
}
