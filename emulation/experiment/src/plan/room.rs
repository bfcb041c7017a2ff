//! Rooms of a run, and the stays of their members.

use std::ops::Range;
use std::time::Duration;

use roost_api::query::MAX_ROOM_NAME_BYTES;
use roost_topology::suggest;
use roost_topology::units::format_duration;
use roost_wire::Service;
use serde::Deserialize;
use toml::Spanned;

use super::file::{PlanLines, all_named};
use super::values::{DurationText, Moment};
use super::{Architecture, Named, PlanError};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    pub name: Named,
    pub members: RoomMembers,
    pub members_line: usize,
    /// The streams that each member has of every other one.
    pub services: Vec<Service>,
    /// The first member enters at this time, the next ones each `every` later, and all leave at `until`.
    pub from: Duration,
    pub every: Duration,
    pub until: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoomMembers {
    All,
    /// A number of nodes, which the plan's seed chooses.
    Count(usize),
    Hosts(Vec<Named>),
}

/// `[rooms.NAME]` in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RoomFile {
    members: Spanned<RoomMembersFile>,
    services: Option<Spanned<Vec<String>>>,
    from: Option<Spanned<Moment>>,
    every: Option<DurationText>,
    until: Option<Spanned<Moment>>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "all, the number of members, or a list of their hosts")]
enum RoomMembersFile {
    Word(AllText),
    Count(usize),
    Hosts(Vec<String>),
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum AllText {
    All,
}

/// The parts of a plan that decide about its rooms.
#[derive(Clone, Copy)]
pub(super) struct RoomPlan {
    pub(super) architecture: Architecture,
    pub(super) reflect: bool,
    pub(super) duration: Duration,
}

impl RoomFile {
    pub(super) fn read(self, name: &Spanned<String>, plan: RoomPlan, lines: &PlanLines<'_>) -> Result<Room, PlanError> {
        let RoomPlan { architecture, reflect, duration } = plan;
        let name = lines.named(name);
        let error = |message: &str| Err(lines.error(name.line, message));
        if !(1..=MAX_ROOM_NAME_BYTES).contains(&name.name.len()) {
            return error(&format!("the name of a room has 1 to {MAX_ROOM_NAME_BYTES} bytes"));
        }
        if !architecture.has_rooms() {
            return error(&format!("`{}` has no super nodes, and only they keep rooms", architecture.name()));
        }
        if !reflect {
            return error("super nodes reflect the streams of a room: set reflect = true");
        }
        let services = self.services.map_or(Ok(vec![Service::Video]), |services| streams(services, lines))?;
        let (from, from_line) = moment(self.from, Duration::ZERO, name.line, duration, lines);
        let (until, until_line) = moment(self.until, duration, name.line, duration, lines);
        let told = format_duration;
        if until > duration {
            let message = format!("until {}: the plan's duration is {}", told(until), told(duration));
            return Err(lines.error(until_line, message));
        }
        if from >= until {
            let line = if until == duration { from_line } else { until_line };
            let message = format!("the members enter at {} and leave at {}", told(from), told(until));
            return Err(lines.error(line, message));
        }
        let members_line = lines.line_of(self.members.span());
        let members = match self.members.into_inner() {
            RoomMembersFile::Word(AllText::All) => RoomMembers::All,
            RoomMembersFile::Count(count) => RoomMembers::Count(count),
            RoomMembersFile::Hosts(hosts) => RoomMembers::Hosts(all_named(hosts, members_line)),
        };
        let every = self.every.map_or(Duration::ZERO, |every| every.0);
        Ok(Room { name, members, members_line, services, from, every, until })
    }
}

/// A time of the run, and its line; `default` on the room's own line.
fn moment(
    given: Option<Spanned<Moment>>,
    default: Duration,
    line: usize,
    duration: Duration,
    lines: &PlanLines<'_>,
) -> (Duration, usize) {
    given.map_or((default, line), |at| (at.get_ref().resolve_time(duration), lines.line_of(at.span())))
}

fn streams(names: Spanned<Vec<String>>, lines: &PlanLines<'_>) -> Result<Vec<Service>, PlanError> {
    let span: Range<usize> = names.span();
    let error = |message: String| lines.error(lines.line_of(span.clone()), message);
    let streams = || Service::ALL.into_iter().filter(|service| service.is_stream());
    let mut services = Vec::new();
    for name in names.into_inner() {
        let service = streams().find(|service| service.name() == name).ok_or_else(|| {
            let near = suggest::did_you_mean(&name, streams().map(Service::metric_name));
            error(format!("`{name}` is no stream: a room has video and track{near}"))
        })?;
        if !services.contains(&service) {
            services.push(service);
        }
    }
    if services.is_empty() {
        return Err(error("a room without a service has no streams".to_owned()));
    }
    Ok(services)
}
