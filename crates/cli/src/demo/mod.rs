//! `roost demo`: the main job on this machine alone, with the real daemons.
//!
//! Two worlds of processes on loopback, one in which nodes answer one another
//! through a super node and one in which a server carries everything, get the
//! same requests side by side: every service over every transport.

mod process;
mod report;
mod row;
mod world;

use std::path::Path;

use roost_identity::group::Group;
use roost_proto::{Scheme, Service};
use roost_terminal::{Output, Steps};
use tokio::signal::unix::{SignalKind, signal};

use crate::args::DemoArgs;
use crate::failure::{Code, Failure, Outcome};
use report::Report;
use row::Row;
use world::{Mode, World};

/// Runs the demo and takes everything down again, however it ends.
pub(crate) async fn run(args: &DemoArgs, output: Output) -> Outcome {
    let folder = tempfile::Builder::new().prefix("roost-demo-").tempdir();
    let folder = folder.map_err(|error| Failure::failed(format!("cannot make a temporary folder: {error}")))?;
    let mut worlds = Vec::new();
    let rows = tokio::select! {
        rows = perform(args, folder.path(), &mut worlds, output) => rows,
        interrupted = interrupted() => interrupted.and(Ok(Vec::new())),
    };
    let kept = if args.keep && rows.is_ok() { keep(&worlds, output).await } else { Ok(()) };
    for world in worlds {
        world.stop().await;
    }
    kept?;
    verdict(&rows?)
}

/// Ctrl-C or a termination: whoever started us wants it to end.
async fn interrupted() -> Outcome {
    let failed = |error| Failure::failed(format!("cannot listen to signals: {error}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
    Err(Failure::new(Code::Interrupted, "interrupted; everything has been stopped"))
}

async fn perform(args: &DemoArgs, folder: &Path, worlds: &mut Vec<World>, output: Output) -> Outcome<Vec<Row>> {
    let steps =
        Steps::start(output, "starting twelve daemons", Mode::ALL.len() * Scheme::ALL.len() * Service::ALL.len());
    let group = Group::init(&folder.join("group"), "demo")?;
    for mode in Mode::ALL {
        worlds.push(World::start(mode, &group, folder).await?);
    }
    let [peer, central] = worlds.as_mut_slice() else { return Ok(Vec::new()) };
    tokio::try_join!(peer.ready(), central.ready())?;
    steps.say("asking for every service over every transport");
    let (direct, relayed) = tokio::try_join!(ask(peer, args, &steps), ask(central, args, &steps))?;
    let rows = [direct, relayed].concat();
    // Objects over the transport that nodes prefer for control: nothing has to be set up any more.
    let warm = peer.measure(Service::Sensor, Scheme::Udp, args.duration).await?;
    steps.end();
    Report::new(&rows, &warm).print(output)?;
    Ok(rows)
}

/// Asks for everything, one after the other, so that what is counted belongs
/// to one request.
async fn ask(world: &World, args: &DemoArgs, steps: &Steps) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    for service in Service::ALL {
        for transport in Scheme::ALL {
            rows.push(world.measure(service, transport, args.duration).await?);
            steps.advance();
        }
    }
    Ok(rows)
}

async fn keep(worlds: &[World], output: Output) -> Outcome {
    let mut text = String::from("Everything is still running. Try, in another terminal:\n");
    for world in worlds {
        text.push_str(&world.guide());
    }
    text.push_str("Ctrl-C here stops it all.");
    output.say(text);
    // Ctrl-C is how it is meant to end, so it is no failure here.
    match interrupted().await {
        Err(Failure::Said { code: Code::Interrupted, .. }) => Ok(()),
        other => other,
    }
}

fn verdict(rows: &[Row]) -> Outcome {
    let failed: Vec<&Row> = rows.iter().filter(|row| !row.ok).collect();
    let Some(first) = failed.first() else { return Ok(()) };
    let code = first.code.unwrap_or(Code::Failed);
    let why = first.problem.as_deref().unwrap_or("what came is not what was sent");
    let which = format!("{} over {} by {}", first.service, first.transport, first.mode.name());
    Err(Failure::new(code, format!("{} of {} requests failed; the first, {which}: {why}", failed.len(), rows.len())))
}
