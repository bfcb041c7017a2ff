//! To come.
use crate::{args::BenchArgs, failure::Outcome, output::Output};
pub(crate) async fn run(_: &BenchArgs, _: Output) -> Outcome {
    Err(crate::failure::Failure::failed("this build does not have it yet"))
}
