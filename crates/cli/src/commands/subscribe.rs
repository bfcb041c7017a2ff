//! `roost subscribe`: receives a stream that super nodes reflect.

use std::path::Path;

use roost_terminal::Output;
use roost_wire::Form;

use super::request;
use crate::args::{RequestArgs, SubscribeArgs};
use crate::failure::{Failure, Outcome};

/// Receives until the stream is over.
pub(crate) async fn run(args: &SubscribeArgs, socket: &Path, output: Output) -> Outcome {
    let form = args.service.form();
    let service = args.service.with_form(if form == Form::Any { Form::Stream } else { form });
    if !service.is_stream() {
        let whole = format!("{} is no stream to watch together: ask for it by `roost request`", args.service);
        return Err(Failure::usage(whole));
    }
    request::run(&RequestArgs { service, ..args.into() }, socket, output).await
}
