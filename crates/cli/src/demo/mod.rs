//! `roost demo`: the main job on this machine alone, with the real daemons.
//!
//! First a picture, which is kept, and the death of a super node. Then two networks of processes on loopback get the
//! same requests side by side, every service and a call over every transport: one in which nodes answer one another through a
//! super node, and one in which a server carries everything.

mod echo;
mod failover;
mod page;
mod process;
mod report;
mod row;
mod world;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use roost_identity::group::Group;
use roost_terminal::{Output, Steps};
use roost_wire::{Scheme, Service};
use tokio::signal::unix::{SignalKind, signal};

use crate::args::DemoArgs;
use crate::failure::{Code, Failure, Outcome};
use failover::{Failover, FailoverNetwork};
use report::{DemoReport, Scenes};
use row::DemoRow;
use world::{Architecture, DemoNetwork};

/// A test picture that moves: 8 s of H.264 without B-frames, a key frame a second.
const CLIP: &[u8] = include_bytes!("../../assets/camera.ts");

/// The daemons to stop at the end.
#[derive(Default)]
struct RunningDaemons {
    pair: Option<FailoverNetwork>,
    networks: Vec<DemoNetwork>,
}

/// Runs the demo and stops all its processes, however it ends.
pub(crate) async fn run(args: &DemoArgs, output: Output) -> Outcome {
    let folder = tempfile::Builder::new().prefix("roost-demo-").tempdir();
    let folder = folder.map_err(|error| Failure::failed(format!("cannot make a temporary folder: {error}")))?;
    if args.watch {
        return watch(folder.path(), output).await;
    }
    let mut running = RunningDaemons::default();
    let rows = tokio::select! {
        rows = run_scenes(args, folder.path(), &mut running, output) => rows,
        interrupted = interrupted() => interrupted.and(Ok(Vec::new())),
    };
    let RunningDaemons { pair, networks } = running;
    if let Some(pair) = pair {
        pair.stop().await;
    }
    let kept = if args.keep && rows.is_ok() { keep(&networks, output).await } else { Ok(()) };
    for network in networks {
        network.stop().await;
    }
    kept?;
    verdict(&rows?)
}

/// Shows the page over a network of its own until Ctrl-C, and stops all its processes.
async fn watch(folder: &Path, output: Output) -> Outcome {
    let group = Group::init(&folder.join("group"), "demo")?;
    output.say("Starting a super node and six nodes, of which five move.");
    let clip = folder.join("camera.ts");
    std::fs::write(&clip, CLIP).map_err(|error| Failure::file("write", &clip, &error))?;
    let mut network = DemoNetwork::start(Architecture::Overlay, &group, folder, Some(&clip)).await?;
    let shown = tokio::select! {
        shown = async {
            network.ready().await?;
            page::run(&network, output).await
        } => shown,
        interrupted = interrupted() => interrupted,
    };
    network.stop().await;
    ended(shown)
}

/// Ctrl-C is the proper end of what runs until then, so it is no failure.
fn ended(outcome: Outcome) -> Outcome {
    match outcome {
        Err(Failure::Reported { code: Code::Interrupted, .. }) => Ok(()),
        other => other,
    }
}

/// Waits for Ctrl-C or a termination.
async fn interrupted() -> Outcome {
    let failed = |error| Failure::failed(format!("cannot listen to signals: {error}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
    Err(Failure::new(Code::Interrupted, "interrupted; everything has been stopped"))
}

async fn run_scenes(
    args: &DemoArgs,
    folder: &Path,
    running: &mut RunningDaemons,
    output: Output,
) -> Outcome<Vec<DemoRow>> {
    let steps = Steps::start(output, "starting", Architecture::ALL.len() * Scheme::ALL.len() * services()?.len());
    let group = Group::init(&folder.join("group"), "demo")?;
    let scenes = show(&group, folder, &mut running.pair, output, &steps).await?;
    say(output, &steps, "Starting fourteen more daemons: a super node and a server, each with six nodes.".to_owned());
    for mode in Architecture::ALL {
        running.networks.push(DemoNetwork::start(mode, &group, folder, None).await?);
    }
    let [overlay, central] = running.networks.as_mut_slice() else { return Ok(Vec::new()) };
    tokio::try_join!(overlay.ready(), central.ready())?;
    let every = "Asking for every service over every transport, and calling one, through the super node and through the server.";
    say(output, &steps, every.to_owned());
    let (direct, relayed) = tokio::try_join!(ask(overlay, args, &steps, output), ask(central, args, &steps, output))?;
    let rows = [direct, relayed].concat();
    // Objects over the transport that nodes prefer for control: nothing has to be set up any more.
    let warm = overlay.measure(Service::Sensor, Scheme::Udp, args.duration).await?;
    steps.end();
    DemoReport::new(&rows, &warm, &scenes).print(output)?;
    Ok(rows)
}

/// Gets a picture and keeps it, then kills a super node.
async fn show(
    group: &Group,
    folder: &Path,
    pair: &mut Option<FailoverNetwork>,
    output: Output,
    steps: &Steps,
) -> Outcome<Scenes> {
    say(output, steps, "Starting two super nodes, a node with a camera, and a node that watches.".to_owned());
    let pair = pair.insert(FailoverNetwork::start(group, folder).await?);
    say(output, steps, "Getting a picture from the camera.".to_owned());
    let picture = keep_picture(&pair.picture().await?)?;
    say(output, steps, format!("The picture is {}: look at it.", picture.display()));
    say(output, steps, "Killing the super node of the node that watches, without a warning.".to_owned());
    let failover = pair.fail_over().await?;
    let Failover { killed, next, answered, moved } = &failover;
    let (answered, moved) = (answered.as_secs_f64(), moved.as_secs_f64());
    let went_on = format!(
        "{killed} is dead. The next picture was there {answered:.2} s after that, and {next} was the node's new super node \
         after {moved:.2} s."
    );
    say(output, steps, went_on);
    Ok(Scenes { picture, failover })
}

/// Writes a picture to a file that stays.
fn keep_picture(picture: &[u8]) -> Outcome<PathBuf> {
    let failed = |error: &std::io::Error| Failure::failed(format!("cannot write the picture: {error}"));
    let mut file =
        tempfile::Builder::new().prefix("roost-demo-").suffix(".jpg").tempfile().map_err(|error| failed(&error))?;
    file.write_all(picture).map_err(|error| failed(&error))?;
    let (_, path) = file.keep().map_err(|error| failed(&error.error))?;
    Ok(path)
}

/// Tells the present step, also without a terminal for the progress.
fn say(output: Output, steps: &Steps, what: String) {
    if output.shows_progress() {
        steps.line(&what);
    } else {
        output.say(&what);
    }
    steps.say(what);
}

/// The services of the table: the four, and a call.
fn services() -> Outcome<Vec<Service>> {
    Ok(Service::ALL.into_iter().chain([echo::service()?]).collect())
}

/// Requests everything, one after the other, so that the counts belong to one request.
async fn ask(world: &DemoNetwork, args: &DemoArgs, steps: &Steps, output: Output) -> Outcome<Vec<DemoRow>> {
    let mut rows = Vec::new();
    for service in services()? {
        for transport in Scheme::ALL {
            let row = world.measure(service, transport, args.duration).await?;
            if !output.shows_progress() {
                let came = if row.ok { "came" } else { "did not come" };
                output.say(format!("{}: {service} over {transport} {came}", row.mode.name()));
            }
            rows.push(row);
            steps.advance();
        }
    }
    Ok(rows)
}

async fn keep(worlds: &[DemoNetwork], output: Output) -> Outcome {
    let mut text = String::from("Everything is still running. Try, in another terminal:\n");
    for world in worlds {
        text.push_str(&world.guide());
    }
    text.push_str("Ctrl-C here stops it all.");
    output.say(text);
    ended(interrupted().await)
}

fn verdict(rows: &[DemoRow]) -> Outcome {
    let failed: Vec<&DemoRow> = rows.iter().filter(|row| !row.ok).collect();
    let Some(first) = failed.first() else { return Ok(()) };
    let code = first.code.unwrap_or(Code::Failed);
    let why = first.problem.as_deref().unwrap_or("what came is not what was sent");
    let which = format!("{} over {} by {}", first.service, first.transport, first.mode.name());
    Err(Failure::new(code, format!("{} of {} requests failed; the first, {which}: {why}", failed.len(), rows.len())))
}
