//! The TOML form of a plan.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use roost_topology::file::fields::SourceText;
use roost_topology::generate;
use serde::Deserialize;
use toml::Spanned;

use super::capture::CaptureFile;
use super::fault::{FaultFile, LinkFile};
use super::program::{ProgramFile, VariablesFile, variables};
use super::room::{RoomFile, RoomPlan};
use super::settings::SettingsFile;
use super::values::{DurationText, parsed, seed};
use super::{
    Architecture, Class, DaemonAction, DaemonRef, Fault, FaultKind, HubSelection, LabSettings, Locality, MAX_SPEED,
    MAX_TIERS, MIN_SPEED, Mix, Movement, Named, Participation, Plan, PlanError, PlanErrors, PlanProgram, Room,
    SuperNodes, TopologySource, TransportChoice,
};

const MAX_LENGTH: Duration = Duration::from_secs(7 * 24 * 3600);
pub(super) const MAX_FAULTS: usize = 65_536;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanFile {
    name: Option<Spanned<String>>,
    topology: TopologySource,
    #[serde(deserialize_with = "parsed")]
    architecture: Architecture,
    super_nodes: Option<Spanned<HubSelectionFile>>,
    tiers: Option<Spanned<TiersFile>>,
    #[serde(default)]
    homes: BTreeMap<Spanned<String>, Spanned<String>>,
    caches: Option<Spanned<HubSelectionFile>>,
    server: Option<Spanned<String>>,
    #[serde(default, deserialize_with = "parsed")]
    transport: TransportChoice,
    warm_up: Option<Spanned<DurationText>>,
    duration: Spanned<DurationText>,
    drain: Option<Spanned<DurationText>>,
    timeout: Option<Spanned<DurationText>>,
    handshake: Option<Spanned<DurationText>>,
    stream: Option<Spanned<DurationText>>,
    reflect: Option<Spanned<bool>>,
    sealed_keys: Option<bool>,
    idle: Option<Spanned<DurationText>>,
    replay: Option<Spanned<String>>,
    #[serde(default = "first_seed", deserialize_with = "seed")]
    seed: u64,
    #[serde(default = "yes")]
    linktest: bool,
    #[serde(default)]
    classes: BTreeMap<Spanned<String>, ClassFile>,
    #[serde(default)]
    links: BTreeMap<Spanned<String>, LinkFile>,
    #[serde(default)]
    faults: Vec<FaultFile>,
    #[serde(default)]
    rooms: BTreeMap<Spanned<String>, RoomFile>,
    movement: Option<MovementFile>,
    capture: Option<Spanned<CaptureFile>>,
    #[serde(default)]
    settings: SettingsFile,
    #[serde(default)]
    environment: VariablesFile,
    #[serde(default, rename = "program")]
    programs: Vec<ProgramFile>,
    #[serde(default)]
    lab: LabSettings,
    /// Read by the sweep.
    #[serde(default, rename = "sweep")]
    _sweep: Option<toml::Table>,
}

const fn first_seed() -> u64 {
    1
}

const fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(untagged)]
enum HubSelectionFile {
    Count(usize),
    Hosts(Vec<String>),
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "the number of tiers, or a list of hosts for each, the lowest first")]
enum TiersFile {
    Count(usize),
    Hosts(Vec<Vec<String>>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClassFile {
    mix: Option<Participation>,
    locality: Option<Locality>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MovementFile {
    speed: Spanned<f64>,
}

/// Translates offsets in a text into lines.
pub(super) struct PlanLines<'a> {
    source: &'a SourceText<'a>,
    file: &'a Path,
}

impl PlanLines<'_> {
    pub(super) const fn source(&self) -> &SourceText<'_> {
        self.source
    }

    /// The line of an offset, from 1.
    pub(super) fn line_of(&self, span: Range<usize>) -> usize {
        self.source.line(span.start) as usize
    }

    pub(super) fn named(&self, name: &Spanned<String>) -> Named {
        Named { name: name.get_ref().clone(), line: self.line_of(name.span()) }
    }

    pub(super) fn error(&self, line: usize, message: impl Into<String>) -> PlanError {
        PlanError::new(self.file, line, message)
    }

    /// A duration within the limits of a run.
    fn length(&self, span: Option<Spanned<DurationText>>, default: Duration) -> Result<Duration, PlanError> {
        let Some(span) = span else { return Ok(default) };
        let length = span.get_ref().0;
        match length {
            Duration::ZERO => Err(self.error(self.line_of(span.span()), "it must be longer than nothing")),
            _ if length > MAX_LENGTH => Err(self.error(self.line_of(span.span()), "it is longer than a week")),
            _ => Ok(length),
        }
    }
}

pub(super) fn parse(text: &str, path: &Path) -> Result<Plan, PlanError> {
    let source = SourceText::new(text);
    let lines = PlanLines { source: &source, file: path };
    let read = source.read::<PlanFile>("a plan");
    let mut wrong = PlanErrors::default();
    let tell = |wrong: &mut PlanErrors| {
        for problem in source.problems() {
            wrong.record_error(Err(lines.error(problem.line as usize, problem.text)));
        }
    };
    let Some(file) = read else {
        tell(&mut wrong);
        return Err(wrong.joined().unwrap_or_else(|| lines.error(0, "cannot be read")));
    };
    let own_name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    if let Some(name) = file.name.as_ref().filter(|name| !is_name(name.get_ref())) {
        let message = "a name is 1 to 63 letters, digits, `-`, `_` or `.`, and begins with a letter or digit";
        wrong.record_error(Err(lines.error(lines.line_of(name.span()), message)));
    }
    // Without a duration no fault is too late.
    let duration = wrong.value_or(lines.length(Some(file.duration), Duration::ZERO), MAX_LENGTH);
    let faults = faults_of(file.faults, &lines, duration, &mut wrong);
    let (mut links, mut traces) = (Vec::new(), Vec::new());
    for (name, link) in file.links {
        let name = lines.named(&name);
        let changes = wrong.value_or(link.changes(&lines), Vec::new());
        traces.extend(link.traces(&name, &lines));
        links.push((name, changes));
    }
    let movement = file.movement.map(|movement| movement_of(&movement, &faults, &lines)).transpose();
    let super_nodes = match file.tiers {
        Some(tiers) => tiers_of(tiers, file.super_nodes.is_some(), &lines),
        None if file.super_nodes.is_none() && matches!(file.topology, TopologySource::Forest(_)) => {
            Ok(SuperNodes::Tiers(generate::FOREST_TIERS))
        }
        None => places(file.super_nodes, "super node", &lines).map(SuperNodes::Flat),
    };
    let reflect = wrong.value_or(reflect_of(file.reflect, file.architecture, &lines), false);
    let has_rooms = !file.rooms.is_empty();
    let of_rooms = RoomPlan { architecture: file.architecture, reflect, duration };
    let rooms = rooms_of(file.rooms, of_rooms, &lines, &mut wrong);
    let classes: BTreeMap<String, Class> =
        file.classes.into_iter().map(|(name, class)| class_of(name, &class, &lines)).collect();
    if !has_rooms {
        wrong.record_error(idle_needs_room(&classes, &lines));
    }
    let capture = file.capture.map(|capture| CaptureFile::read(&capture, &lines)).transpose();
    let capture = wrong.value_or(capture, None);
    let settings = file.settings.read(&lines, &mut wrong);
    let environment = wrong.value_or(variables(file.environment, &lines), BTreeMap::new());
    let programs = programs_of(file.programs, file.architecture, duration, &lines, &mut wrong);
    let mut length = |span, default| wrong.value_or(lines.length(span, default), default);
    let plan = Plan {
        name: file.name.map_or(own_name, Spanned::into_inner),
        architecture: file.architecture,
        warm_up: length(file.warm_up.filter(|span| !span.get_ref().0.is_zero()), Duration::ZERO),
        duration,
        drain: length(file.drain, Duration::from_secs(60)),
        timeout: length(file.timeout, Duration::from_secs(30)),
        handshake: file.handshake.map(|span| length(Some(span), Duration::ZERO)),
        stream: length(file.stream, Duration::from_secs(10)),
        reflect,
        sealed_keys: file.sealed_keys.unwrap_or(true),
        idle: length(file.idle, Duration::from_secs(1)),
        replay: file.replay.as_ref().map(|name| lines.named(name)),
        super_nodes: wrong.value_or(super_nodes, SuperNodes::Flat(HubSelection::Count(1))),
        homes: file.homes.iter().map(|(node, hub)| (lines.named(node), lines.named(hub))).collect(),
        caches: wrong.value_or(places(file.caches, "cache", &lines), HubSelection::Count(1)),
        topology: file.topology,
        server: file.server.as_ref().map(|name| lines.named(name)),
        transport: file.transport,
        seed: file.seed,
        linktest: file.linktest,
        classes,
        links,
        traces,
        faults,
        rooms,
        movement: wrong.value_or(movement, None),
        capture,
        settings,
        environment,
        programs,
        lab: file.lab,
    };
    tell(&mut wrong);
    wrong.into_result().map(|()| plan)
}

/// The rooms in the order of the names, so that a plan means the same however it is written.
fn rooms_of(
    files: BTreeMap<Spanned<String>, RoomFile>,
    plan: RoomPlan,
    lines: &PlanLines<'_>,
    wrong: &mut PlanErrors,
) -> Vec<Room> {
    let rooms = files.into_iter().map(|(name, room)| room.read(&name, plan, lines).map(Some));
    rooms.filter_map(|room| wrong.value_or(room, None)).collect()
}

fn programs_of(
    files: Vec<ProgramFile>,
    architecture: Architecture,
    duration: Duration,
    lines: &PlanLines<'_>,
    wrong: &mut PlanErrors,
) -> Vec<PlanProgram> {
    if files.is_empty() && !architecture.has_daemons() {
        let message = "an architecture of programs needs a [[program]] with name, host and command";
        wrong.record_error(Err(lines.error(0, message)));
    }
    let programs = files.into_iter().map(|program| program.read(lines, duration).map(Some));
    programs.filter_map(|program| wrong.value_or(program, None)).collect()
}

/// Reads the key `reflect`, which only super nodes can follow.
fn reflect_of(
    given: Option<Spanned<bool>>,
    architecture: Architecture,
    lines: &PlanLines<'_>,
) -> Result<bool, PlanError> {
    let Some(given) = given else { return Ok(false) };
    let line = lines.line_of(given.span());
    if *given.get_ref() && !architecture.has_rooms() {
        let name = architecture.name();
        return Err(lines.error(line, format!("`{name}` has no super nodes to reflect streams: leave out `reflect`")));
    }
    Ok(given.into_inner())
}

/// The faults, sorted by time.
fn faults_of(files: Vec<FaultFile>, lines: &PlanLines<'_>, duration: Duration, wrong: &mut PlanErrors) -> Vec<Fault> {
    let mut faults = Vec::new();
    for fault in files {
        faults.extend(wrong.value_or(fault.read(lines, duration), Vec::new()));
        if faults.len() > MAX_FAULTS {
            wrong.record_error(Err(lines.error(0, format!("has more faults than the {MAX_FAULTS} that are possible"))));
            break;
        }
    }
    faults.sort_by_key(|fault| fault.at);
    faults
}

fn is_name(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    text.len() <= 63 && text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(is_plain)
}

fn places(
    given: Option<Spanned<HubSelectionFile>>,
    what: &str,
    lines: &PlanLines<'_>,
) -> Result<HubSelection, PlanError> {
    let Some(given) = given else { return Ok(HubSelection::Count(1)) };
    let line = lines.line_of(given.span());
    let none = || lines.error(line, format!("at least one {what} is needed"));
    match given.into_inner() {
        HubSelectionFile::Count(0) => Err(none()),
        HubSelectionFile::Hosts(hosts) if hosts.is_empty() => Err(none()),
        HubSelectionFile::Count(count) => Ok(HubSelection::Count(count)),
        HubSelectionFile::Hosts(hosts) => Ok(HubSelection::Hosts(all_named(hosts, line))),
    }
}

pub(super) fn all_named(names: Vec<String>, line: usize) -> Vec<Named> {
    names.into_iter().map(|name| Named { name, line }).collect()
}

fn tiers_of(given: Spanned<TiersFile>, doubly: bool, lines: &PlanLines<'_>) -> Result<SuperNodes, PlanError> {
    let line = lines.line_of(given.span());
    let (count, tiers) = match given.into_inner() {
        TiersFile::Count(count) => (count, SuperNodes::Tiers(count)),
        TiersFile::Hosts(tiers) if tiers.iter().any(Vec::is_empty) => {
            return Err(lines.error(line, "a tier has at least one super node"));
        }
        TiersFile::Hosts(tiers) => {
            (tiers.len(), SuperNodes::Hosts(tiers.into_iter().map(|hosts| all_named(hosts, line)).collect()))
        }
    };
    match count {
        _ if doubly => Err(lines.error(line, "`tiers` says where super nodes are: leave `super_nodes` out")),
        1..=MAX_TIERS => Ok(tiers),
        _ => Err(lines.error(line, format!("there are {count} tiers: 1 to {MAX_TIERS} are possible"))),
    }
}

fn class_of(name: Spanned<String>, file: &ClassFile, lines: &PlanLines<'_>) -> (String, Class) {
    let line = lines.line_of(name.span());
    (name.into_inner(), Class { line, part: file.mix, locality: file.locality })
}

/// Checks that a plan without rooms has no nodes that ask for nothing.
fn idle_needs_room(classes: &BTreeMap<String, Class>, lines: &PlanLines<'_>) -> Result<(), PlanError> {
    let is_idle = |class: &&Class| class.part == Some(Participation::Active(Mix::IDLE));
    classes
        .values()
        .find(is_idle)
        .map_or(Ok(()), |class| Err(lines.error(class.line, "nodes with the mix `idle` need a room: [rooms.NAME]")))
}

/// Checks that movement is possible: a restarted daemon would stand at its initial position, and a frozen one
/// cannot move.
fn movement_of(file: &MovementFile, faults: &[Fault], lines: &PlanLines<'_>) -> Result<Movement, PlanError> {
    let (speed, line) = (*file.speed.get_ref(), lines.line_of(file.speed.span()));
    if !(MIN_SPEED..=MAX_SPEED).contains(&speed) {
        let message = format!("a speed is from one cell an hour to {MAX_SPEED} cells a minute, not {speed}");
        return Err(lines.error(line, message));
    }
    for fault in faults {
        let FaultKind::Daemon(DaemonRef { host, hub: false }, deed) = &fault.kind else { continue };
        let word = match deed {
            DaemonAction::Start => "start",
            DaemonAction::Freeze => "freeze",
            _ => continue,
        };
        let message =
            format!("{} would not know where it has moved to: leave `{word}` out, or `[movement]`", host.name);
        return Err(lines.error(host.line, message));
    }
    Ok(Movement { speed })
}
