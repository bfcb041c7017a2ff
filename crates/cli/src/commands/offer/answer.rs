//! A program that is run for one request: its output goes to the daemon, and the body of a call to its input.

use std::io;
use std::process::Stdio;

use bytes::Bytes;
use roost_api::{Client, Frame, OfferData, OfferRequest};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::ChildStdin;
use tokio::sync::mpsc;

use super::program::Program;
use crate::args::OfferArgs;

/// Pieces of a program's output that wait for the daemon.
pub(super) const BACKLOG: usize = 8;

/// The most bytes of an object that are passed on at once.
const PIECE_BYTES: u64 = 64 * 1024;

/// The longest line that is one datagram, bytes.
const MAX_LINE_BYTES: u64 = 8 * 1024;

/// Runs the program for a request, and gives its output to the daemon.
pub(super) async fn answer(args: &OfferArgs, client: &Client, request: &OfferRequest) -> Result<(), String> {
    let (is_stream, is_call) = (request.service.is_stream(), request.service.is_call());
    let body = if is_call {
        client.offer_body(request.request).await.map_err(|error| error.to_string())?
    } else {
        Bytes::new()
    };
    let input = if is_call { Stdio::piped() } else { Stdio::null() };
    let mut program = match Program::start(args, request, input) {
        Ok(program) => program,
        Err(reason) => {
            // The reason is said here in any case.
            let _ = client.decline(request.request, "its program cannot be started").await;
            return Err(reason);
        }
    };
    let written = write_body(program.child.stdin.take(), body);
    let (give, data) = mpsc::channel(BACKLOG);
    let read = async {
        let outcome = match program.child.stdout.take() {
            Some(output) => pass_on(args, is_stream, BufReader::new(output), &give).await,
            None => Err("it has no output".to_owned()),
        };
        let outcome = match outcome {
            Ok(()) => program.end().await,
            failed => failed,
        };
        if outcome.is_ok() {
            // The daemon may have had enough already.
            let _ = give.send(OfferData::End).await;
        }
        drop(give);
        outcome
    };
    let given = async { client.give(request.request, &args.format, data).await.map_err(|error| error.to_string()) };
    let read = async { tokio::join!(written, read).1 };
    tokio::pin!(given, read);
    tokio::select! {
        biased;
        read = &mut read => match given.await {
            // The rest of the program does not matter.
            Ok(given) if given.enough => Ok(()),
            given => read.and(given.map(drop)),
        },
        given = &mut given => if given?.enough { Ok(()) } else { read.await },
    }
}

/// Writes the body of a call to a program, which need not read it.
async fn write_body(input: Option<ChildStdin>, body: Bytes) {
    if let Some(mut input) = input {
        let _ = input.write_all(&body).await;
    }
}

/// Passes output on until its end, or until nobody takes it.
async fn pass_on(
    args: &OfferArgs,
    is_stream: bool,
    mut output: impl AsyncBufRead + Unpin,
    give: &mpsc::Sender<OfferData>,
) -> Result<(), String> {
    loop {
        let piece = match is_stream {
            true => next_datagram(args, &mut output).await?.map(|datagram| Frame::Data(datagram).encode()),
            false => next_piece(&mut output, PIECE_BYTES).await?,
        };
        let Some(piece) = piece else { return Ok(()) };
        if give.send(OfferData::Part(piece)).await.is_err() {
            return Err("the daemon takes no more".to_owned());
        }
    }
}

/// The next datagram of a program's output; `None` at its end.
pub(super) async fn next_datagram(
    args: &OfferArgs,
    output: &mut (impl AsyncBufRead + Unpin),
) -> Result<Option<Bytes>, String> {
    if !args.lines {
        return next_piece(output, args.datagram.into()).await;
    }
    let mut line = Vec::new();
    output.take(MAX_LINE_BYTES).read_until(b'\n', &mut line).await.map_err(|error| unreadable(&error))?;
    Ok((!line.is_empty()).then(|| line.into()))
}

async fn next_piece(output: &mut (impl AsyncBufRead + Unpin), limit: u64) -> Result<Option<Bytes>, String> {
    let mut piece = Vec::new();
    output.take(limit).read_to_end(&mut piece).await.map_err(|error| unreadable(&error))?;
    Ok((!piece.is_empty()).then(|| piece.into()))
}

fn unreadable(error: &io::Error) -> String {
    format!("its output cannot be read: {error}")
}
