//! To come.
use crate::{args::DemoArgs, failure::Outcome, output::Output};
pub(crate) async fn run(_: &DemoArgs, _: Output) -> Outcome {
    Err(crate::failure::Failure::failed("this build does not have it yet"))
}
