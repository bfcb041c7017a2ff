//! `roost record`: keeps what the connections of daemons do, where they go and what is requested at them.

mod file;
mod follow;

use std::fs::File;
use std::io::{self, Read as _};
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
/// The bytes of a word for digests; of a longer one the rest does not count.
const LEAST_WORD: usize = 16;
const MAX_WORD: u64 = 1024;

pub(crate) async fn run(args: &RecordArgs, socket: &Path, output: Output) -> Outcome {
    let sockets = sockets(args, socket)?;
    for socket in &sockets {
        connect(socket).await?;
    }
    let redaction = args.redact.as_deref().map_or_else(|| Ok(Redaction::none()), redaction)?;
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
                    break "it is as long as --max-size and readers allow";
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

fn redaction(file: &Path) -> Outcome<Redaction> {
    let cannot = |error: io::Error| Failure::failed(format!("cannot read {}: {error}", file.display()));
    let mut text = String::new();
    File::open(file).map_err(cannot)?.take(MAX_WORD).read_to_string(&mut text).map_err(cannot)?;
    let word = text.trim();
    if word.len() < LEAST_WORD {
        let short = format!(
            "the word in {} has {} bytes, and short words can be tried out: `openssl rand -hex 16` makes one",
            file.display(),
            word.len()
        );
        return Err(Failure::new(Code::Usage, short));
    }
    Ok(Redaction::with_word(word.to_owned()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_words_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("word");
        assert!(redaction(&file).is_err());
        std::fs::write(&file, "short\n").unwrap();
        assert!(redaction(&file).is_err());
        std::fs::write(&file, "0123456789abcdef\n").unwrap();
        let word = Redaction::with_word("0123456789abcdef".to_owned());
        assert_eq!(redaction(&file).unwrap().name("uav1"), word.name("uav1"));
    }
}
