//! `roost record`: keeps what the connections of daemons do, where they go and what is requested at them.

mod file;
mod follow;

use std::path::{Path, PathBuf};
use std::time::Duration;

use roost_recording::{DaemonRecorder, RecordingLine, Redaction};
use roost_terminal::Output;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::connect;
use crate::args::RecordArgs;
use crate::failure::{Code, Failure, Outcome};
use crate::signals::Signals;
use file::RecordingFile;
use follow::FollowedDaemon;

const MAX_WAITING: usize = 4096;
/// The pause between two flushes of the file.
const FLUSH: Duration = Duration::from_secs(1);
const MAX_DAEMONS: usize = 256;

pub(crate) async fn run(args: &RecordArgs, socket: &Path, output: Output) -> Outcome {
    let sockets = sockets(args, socket)?;
    for socket in &sockets {
        connect(socket).await?;
    }
    let redaction = args.redact.clone().map_or_else(Redaction::none, Redaction::with_word);
    let mut signals = Signals::catch()?;
    let mut file = RecordingFile::create(&args.output, args.max_size * 1_000_000)?;
    file.write(RecordingLine::Begin {
        version: roost_recording::VERSION,
        program: env!("CARGO_PKG_VERSION").to_owned(),
        redacted: redaction.is_on(),
    })?;
    let (sender, mut lines) = mpsc::channel(MAX_WAITING);
    let mut tasks = JoinSet::new();
    for (daemon, socket) in (0..).zip(sockets) {
        let recorder = DaemonRecorder::new(daemon, redaction.clone());
        tasks.spawn(FollowedDaemon { socket, recorder, lines: sender.clone(), ping: args.ping }.run());
    }
    let what = if args.redact.is_some() { "cells and ids of nodes" } else { "names, addresses and cells of nodes" };
    output.say(format!("Recording into {} ({what}); Ctrl-C ends it.", args.output.display()));
    let length = async {
        match args.duration {
            Some(duration) => tokio::time::sleep(duration).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(length);
    let mut flush = tokio::time::interval(FLUSH);
    let why = loop {
        tokio::select! {
            Some(line) = lines.recv() => {
                if !file.write(line)? {
                    break "its size has reached the limit of --max-size";
                }
            }
            _ = flush.tick() => file.flush()?,
            () = &mut length => break "its time is over",
            () = signals.next() => break "it was interrupted",
        }
    };
    tasks.abort_all();
    file.end(why)?;
    output.say(format!("{}: {} lines; the recording has ended: {why}.", args.output.display(), file.lines()));
    Ok(())
}

fn sockets(args: &RecordArgs, socket: &Path) -> Outcome<Vec<PathBuf>> {
    let mut sockets = vec![socket.to_owned()];
    for other in &args.sockets {
        if !sockets.contains(other) {
            sockets.push(other.clone());
        }
    }
    if sockets.len() > MAX_DAEMONS {
        let many = format!("a recording has at most {MAX_DAEMONS} daemons: divide them among several recordings");
        return Err(Failure::new(Code::Usage, many));
    }
    Ok(sockets)
}
