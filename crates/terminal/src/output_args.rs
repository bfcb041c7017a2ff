//! The flags for the output of a command.

use clap::Args;

use crate::output::Output;

/// The flags that every command has, to be flattened into its own.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct OutputArgs {
    /// Print JSON (each object carries "schema") instead of tables
    #[arg(long, global = true)]
    pub json: bool,
    /// Say nothing but errors
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Say more
    #[arg(short, long, global = true, conflicts_with = "quiet")]
    pub verbose: bool,
    /// Never colour (also NO_COLOR and TERM=dumb)
    #[arg(long, global = true)]
    pub no_color: bool,
}

impl OutputArgs {
    /// The output that these flags and the environment ask for.
    pub fn output(self) -> Output {
        Output::new(self.json, self.quiet, self.verbose, self.no_color)
    }
}
