//! `emulate bench subscription`: a reflected stream as its receivers see it.

use clap::Args;
use roost_bench::subscription::{SubscriptionBench, SubscriptionCase};
use roost_terminal::Output;

use super::measured::{NetworkArgs, chosen, run_bench};
use crate::failure::CommandResult;

/// `emulate bench subscription`.
#[derive(Debug, Args)]
pub(crate) struct SubscriptionArgs {
    /// Only this: join-first, join-reflected, join-again, leave-subscribers, leave-providers, uplink-1,
    /// uplink-4, uplink-8, direct-4 or direct-8; may be given more than once
    #[arg(long, value_name = "CASE", value_delimiter = ',')]
    case: Vec<SubscriptionCase>,
    #[command(flatten)]
    network: NetworkArgs,
}

pub(crate) fn run(args: &SubscriptionArgs, output: Output) -> CommandResult {
    let cases: Vec<SubscriptionCase> = chosen(SubscriptionCase::ALL, &args.case).collect();
    run_bench(|| Ok(SubscriptionBench), &cases, &args.network.options(), output)
}
