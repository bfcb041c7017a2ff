//! `roost call`: sends a body to the provider of a service, and receives the answer.

use std::path::Path;

use bytes::Bytes;
use roost_services::SinkSpec;
use roost_terminal::Output;
use roost_wire::messages::MAX_BODY_BYTES;
use roost_wire::{Form, Service};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::connect;
use super::request::{PreparedRequest, receive};
use crate::args::CallArgs;
use crate::failure::{Failure, Outcome};

pub(crate) async fn run(args: &CallArgs, socket: &Path, output: Output) -> Outcome {
    let service = call_service(args.service)?;
    let body = read_body(args.data.as_deref()).await?;
    let answer = (!output.is_json()).then_some(SinkSpec::Stdout);
    let args = args.request_args(service, answer);
    let client = connect(socket).await?;
    let chosen = args.area.choice()?;
    receive(&args, PreparedRequest { client, chosen, body: Some(body) }, output).await
}

fn call_service(service: Service) -> Outcome<Service> {
    let called = if service.form() == Form::Any { service.with_form(Form::Call) } else { service };
    if !called.is_call() {
        let message = format!("{} is no call: ask for it by `roost request`", service.full_text());
        return Err(Failure::usage(message));
    }
    Ok(called)
}

async fn read_body(data: Option<&str>) -> Outcome<Bytes> {
    let body = match data {
        None => Bytes::new(),
        Some("-") => read_some(tokio::io::stdin(), "the standard input").await?,
        Some(text) => match text.strip_prefix('@') {
            Some(path) => {
                let file = tokio::fs::File::open(path).await;
                let file = file.map_err(|error| Failure::file("read", Path::new(path), &error))?;
                read_some(file, path).await?
            }
            None => Bytes::copy_from_slice(text.as_bytes()),
        },
    };
    if body.len() > MAX_BODY_BYTES {
        return Err(Failure::usage("the body of a call has at most 64 KiB: send a file by `roost send`"));
    }
    Ok(body)
}

/// Reads one byte more than a body may have at most.
async fn read_some(input: impl AsyncRead + Unpin, name: &str) -> Outcome<Bytes> {
    let mut bytes = Vec::new();
    let read = input.take(MAX_BODY_BYTES as u64 + 1).read_to_end(&mut bytes).await;
    read.map_err(|error| Failure::failed(format!("cannot read {name}: {error}")))?;
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_forms_are_no_calls() {
        let called =
            |text: &str| call_service(text.parse().unwrap()).map(Service::form).map_err(|error| error.exit_code());
        assert_eq!((called("acme/tiles"), called("acme/tiles#a:call")), (Ok(Form::Call), Ok(Form::Call)));
        assert_eq!((called("acme/tiles:object"), called("video")), (Err(2), Err(2)));
    }

    #[tokio::test]
    async fn body_is_text_or_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = |bytes: usize| {
            let path = folder.path().join(bytes.to_string());
            std::fs::write(&path, vec![7; bytes]).unwrap();
            format!("@{}", path.display())
        };
        let read = async |data: Option<String>| read_body(data.as_deref()).await.map_err(|error| error.exit_code());
        assert_eq!(read(None).await, Ok(Bytes::new()));
        assert_eq!(read(Some("to 30,40".to_owned())).await, Ok(Bytes::from_static(b"to 30,40")));
        assert_eq!(read(Some(file(MAX_BODY_BYTES))).await.map(|body| body.len()), Ok(MAX_BODY_BYTES));
        assert_eq!(read(Some(file(MAX_BODY_BYTES + 1))).await, Err(2));
        assert!(read(Some("@/nowhere/at/all".to_owned())).await.is_err());
    }
}
