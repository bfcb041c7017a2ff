//! An endless object by UDT4: a short program over Debian's libudt, compiled before the measurement.

use std::io::{self, BufRead, BufReader};
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::thread;

use super::arrivals::ByteArrivals;
use super::{BulkFlow, LOOK};
use crate::program::{CompiledProgram, OwnedProcess, SourceProgram};

pub(super) const SOURCE: SourceProgram = SourceProgram {
    subject: "UDT4",
    source: include_str!("udt4.cpp"),
    file: "udt4.cpp",
    compiler: "g++",
    libraries: &["-ludt", "-lpthread"],
    packages: "g++ and libudt-dev",
};

pub(super) fn send(program: &CompiledProgram, flow: &BulkFlow<'_>, to: Ipv4Addr) -> io::Result<()> {
    // The receiver needs a moment to listen; the sender retries only every quarter of a second.
    thread::sleep(LOOK);
    let mut child = start(program, &["send", &to.to_string(), &flow.port.to_string()])?;
    wait(&mut child, flow)
}

pub(super) fn receive(program: &CompiledProgram, flow: &BulkFlow<'_>, arrivals: &ByteArrivals) -> io::Result<()> {
    let mut child = start(program, &["receive", &flow.port.to_string()])?;
    let output = child.0.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    thread::scope(|scope| {
        scope.spawn(|| {
            for bytes in BufReader::new(output).lines().map_while(Result::ok).filter_map(|line| line.parse().ok()) {
                arrivals.record_bytes(bytes);
            }
        });
        let ended = wait(&mut child, flow);
        drop(child);
        ended
    })
}

fn start(program: &CompiledProgram, words: &[&str]) -> io::Result<OwnedProcess> {
    let mut command = Command::new(program.path());
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map(OwnedProcess)
}

/// Waits until the run is over, or the process has ended by itself.
fn wait(process: &mut OwnedProcess, flow: &BulkFlow<'_>) -> io::Result<()> {
    while !flow.is_over() {
        if let Some(status) = process.0.try_wait()? {
            return Err(io::Error::other(format!("UDT4 ended early: {status}")));
        }
        thread::sleep(LOOK);
    }
    Ok(())
}
