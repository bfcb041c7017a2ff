//! What a study is: what is run, what is drawn of it, what is claimed.

use super::claim::{Claim, MeasureKey};
use super::estimate::Estimator;

/// Where a study's claims are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Paper {
    /// Sproull, Lockwood and Meier 2007: the overlay.
    Sproull,
    /// Púdelka and Rebok 2009: reflectors.
    Erum,
    /// Sloatbeek 2005: bulk transfer.
    Wars,
    /// The paper of 2004 on SCTP for DRE systems.
    Dre,
    /// What the papers leave to the future.
    Beyond,
}

impl Paper {
    /// Its title on pages.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Sproull => {
                "Sproull, Lockwood and Meier 2007: Management and Service Discovery in Satellite and Avionic Networks"
            }
            Self::Erum => "Púdelka and Rebok 2009: Enhanced UDP Packet Reflector – Erum",
            Self::Wars => "Sloatbeek 2005: Protocol Wars",
            Self::Dre => "2004: Using SCTP to Improve QoS and Network Fault-Tolerance of DRE Systems",
            Self::Beyond => "Beyond the papers",
        }
    }
}

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StudyScale {
    /// The same figures in minutes: shorter runs, fewer seeds and places.
    pub is_quick: bool,
    /// Seeds of each place along a figure; those of runs count from 1.
    pub seeds: u64,
}

impl StudyScale {
    /// So many seeds, or as many as are usual: five, and three of a quick run.
    pub fn new(is_quick: bool, seeds: Option<u64>) -> Self {
        Self { is_quick, seeds: seeds.unwrap_or(if is_quick { 3 } else { 5 }) }
    }

    /// How long a run of the published experiments lasts, as plans write it.
    pub(super) const fn duration(self) -> &'static str {
        if self.is_quick { "3m" } else { "15m" }
    }

    /// The places along a figure: all, or those that a quick run has.
    pub(super) fn places<T: Clone>(self, all: &[T], quick: &[T]) -> Vec<T> {
        if self.is_quick { quick } else { all }.to_vec()
    }
}

/// One experiment of a paper, or one beyond it.
#[derive(Clone, Debug)]
pub struct Study {
    /// Its name on the command line, and that of its folder.
    pub id: &'static str,
    /// Whose it is.
    pub paper: Paper,
    /// What it is about.
    pub title: &'static str,
    /// What was done there and is done here.
    pub about: &'static str,
    /// What the text does not say and was filled in, one sentence each.
    pub inferred: Vec<&'static str>,
    /// What the figures' axis is called.
    pub axis: &'static str,
    /// Whether the places along it are kinds, which no line joins.
    pub has_kinds: bool,
    /// What is run.
    pub points: Vec<StudyPoint>,
    /// What is drawn.
    pub plots: Vec<Plot>,
    /// What the seed found, against which it is held.
    pub claims: Vec<Claim>,
}

/// One place of one line: runs that differ in their seed only.
#[derive(Clone, Debug)]
pub struct StudyPoint {
    /// Its line.
    pub series: String,
    /// The value of what is varied.
    pub x: f64,
    /// Where that is along the axis, if not at the value itself.
    pub place: f64,
    /// How the axis calls it.
    pub name: String,
    /// How the runs are made.
    pub make: RunMethod,
    /// The seeds of its runs, from 1 on.
    pub seeds: u64,
}

/// How a run is made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunMethod {
    /// In virtual time, from this plan, whose seed is that of the run.
    Virtual {
        /// The plan's text.
        plan: String,
        /// The topology's, where no generator makes it: the plan names it `network.toml`.
        network: Option<String>,
    },
    /// By `emulate run`, with the real daemons on an emulated network, from a plan as above.
    Emulated {
        /// The plan's text.
        plan: String,
    },
    /// In virtual time and at message level, as `emulate growth` does it: a forest, which is looked at
    /// while its nodes move, look for one another, and ask.
    Growth {
        /// How many nodes.
        nodes: u32,
        /// How long they move and ask for nothing, seconds.
        moving_s: u16,
        /// How many lookups, and pairs of nodes that request, at each distance.
        lookups: u16,
    },
    /// By `emulate bench` with these arguments, in real time, one at a time.
    Bench {
        /// The arguments, but for the seed.
        args: Vec<String>,
        /// The fields of a row whose values make the names of its figures.
        by: &'static [&'static str],
        /// Whether nothing else of the reproduction may run meanwhile, not even with what is left of the processors.
        is_alone: bool,
    },
}

impl RunMethod {
    /// Whether it takes as long as it says, and is not the same twice.
    pub const fn is_real_time(&self) -> bool {
        matches!(self, Self::Emulated { .. } | Self::Bench { .. })
    }
}

impl Study {
    /// Whether a claim is about what is run.
    pub fn shows(&self, claim: &Claim) -> bool {
        let is_run = |at: &MeasureKey| self.points.iter().any(|point| point.is_at(at));
        let has_line = |series: &str| self.points.iter().any(|point| point.series == series);
        match &claim.ours {
            Estimator::Mean(at) | Estimator::Share { part: at, .. } => is_run(at),
            Estimator::Ratio(of, to) => is_run(of) && is_run(to),
            Estimator::Crossing { above, below, .. } => has_line(above) && has_line(below),
        }
    }

    /// What of it is made in real time, or what is not, with the claims about that; `None` if nothing is.
    pub fn only(mut self, real_time: bool) -> Option<Self> {
        self.points.retain(|point| point.make.is_real_time() == real_time);
        let shown: Vec<Claim> = self.claims.iter().filter(|claim| self.shows(claim)).cloned().collect();
        (!self.points.is_empty()).then_some(Self { claims: shown, ..self })
    }
}

impl StudyPoint {
    /// Whether it is at this place of this line.
    pub(super) fn is_at(&self, at: &MeasureKey) -> bool {
        self.series == at.series && self.x.total_cmp(&at.x).is_eq()
    }

    /// A place in virtual time that is called by its value.
    pub(super) fn virtual_run(series: &str, x: f64, plan: String, scale: StudyScale) -> Self {
        let name = crate::report::text_format::three(x);
        Self {
            series: series.to_owned(),
            x,
            place: x,
            name,
            make: RunMethod::Virtual { plan, network: None },
            seeds: scale.seeds,
        }
    }

    /// The same under another name, at a place of its own along the axis.
    pub(super) fn named(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }

    /// The same on a network that no generator makes.
    pub(super) fn on(mut self, text: String) -> Self {
        if let RunMethod::Virtual { network, .. } = &mut self.make {
            *network = Some(text);
        }
        self
    }

    /// The same on an axis on which each ten times as much is a step.
    pub(super) fn on_logarithmic_axis(self) -> Self {
        Self { place: self.x.max(f64::MIN_POSITIVE).log10(), ..self }
    }

    /// Its name among the study's, as a folder's.
    pub fn folder(&self) -> String {
        let plain = |letter: char| if letter.is_ascii_alphanumeric() || letter == '_' { letter } else { '-' };
        format!("{}_{}", self.series, self.name).chars().map(plain).collect()
    }
}

/// One figure.
#[derive(Clone, Debug)]
pub struct Plot {
    /// The figure of the paper.
    pub figure: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// The measure.
    pub measure: &'static str,
    /// What the measure is in.
    pub unit: StudyUnit,
    /// A measure of these lines' runs that is drawn as the limit of what can be.
    pub limit: Option<PlotLimit>,
}

impl Plot {
    /// The same with the least latency that there could be, as the runs of a line tell it; what is no mean latency of
    /// a service stays as it is.
    pub(super) fn beside_limit_of(self, series: &'static str) -> Self {
        const LIMITS: [&str; 4] = ["video.limit", "track.limit", "image.limit", "sensor.limit"];
        let service = self.measure.strip_suffix(".mean");
        let is_its = |limit: &&str| limit.strip_suffix(".limit") == service;
        let limit = LIMITS.into_iter().filter(|_| service.is_some()).find(is_its);
        Self { limit: limit.map(|measure| PlotLimit { series, measure }).or(self.limit), ..self }
    }
}

/// What no system could exceed.
#[derive(Clone, Debug)]
pub struct PlotLimit {
    /// The line whose runs tell it.
    pub series: &'static str,
    /// The measure.
    pub measure: &'static str,
}

/// What a value is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StudyUnit {
    /// Things.
    Count,
    /// Bytes.
    Bytes,
    /// Milliseconds.
    Ms,
    /// Megabits a second.
    MbitS,
    /// A ratio.
    Times,
    /// A ratio, told as the change from 1.
    Change,
    /// A part of one.
    Part,
    /// A hundredth.
    Percent,
}

impl StudyUnit {
    /// A value of it as people read it.
    pub fn show(self, value: f64) -> String {
        use crate::report::text_format::{bytes, milliseconds, percent, rate, ratio, three};
        match self {
            Self::Count => three(value),
            Self::Bytes => bytes(value),
            Self::Ms => milliseconds(value),
            Self::MbitS => rate(value),
            Self::Times => format!("{} ×", ratio(value)),
            Self::Change if value >= 1.0 => format!("+{}", percent(value - 1.0)),
            Self::Change => format!("−{}", percent(1.0 - value)),
            Self::Part => percent(value),
            Self::Percent => percent(value / 100.0),
        }
    }

    /// From one value to another, the unit told once if it is that of both.
    pub fn range(self, low: f64, high: f64) -> String {
        let (low, high) = (self.show(low), self.show(high));
        match (low.rsplit_once(' '), high.rsplit_once(' ')) {
            (Some((number, unit)), Some((_, other))) if unit == other => format!("{number} – {high}"),
            _ => format!("{low} – {high}"),
        }
    }

    /// A mean and the half-width of its interval, the unit told once.
    pub fn around(self, mean: f64, half: f64) -> String {
        let said = self.show(mean);
        if half < mean.abs() * 5e-4 {
            return said;
        }
        let half = match self {
            Self::Change => Self::Part.show(half),
            _ => self.show(half),
        };
        match (said.rsplit_once(' '), half.rsplit_once(' ')) {
            (Some((number, unit)), Some((half, other))) if unit == other => format!("{number} ± {half} {unit}"),
            _ => format!("{said} ± {half}"),
        }
    }

    /// The most that can be measured in it, if there is a most.
    pub(super) const fn most(self) -> Option<f64> {
        match self {
            Self::Part => Some(1.0),
            Self::Percent => Some(100.0),
            Self::Count | Self::Bytes | Self::Ms | Self::MbitS | Self::Times | Self::Change => None,
        }
    }

    /// The step in which papers print it, as far as a figure of nothing needs one: a hundredth.
    pub(super) const fn step(self) -> f64 {
        match self {
            Self::Percent => 1.0,
            Self::Part | Self::Change => 0.01,
            Self::Count | Self::Bytes | Self::Ms | Self::MbitS | Self::Times => 0.0,
        }
    }

    /// Its name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Bytes => "bytes",
            Self::Ms => "ms",
            Self::MbitS => "mbit/s",
            Self::Times | Self::Change => "ratio",
            Self::Part => "part",
            Self::Percent => "%",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_told_in_their_unit() {
        let shown = [
            StudyUnit::Change.show(1.17),
            StudyUnit::Change.show(0.99),
            StudyUnit::Times.show(2.0),
            StudyUnit::Part.show(0.05),
        ];
        assert_eq!(shown, ["+17 %", "−1 %", "2.00 ×", "5 %"]);
    }

    #[test]
    fn a_unit_is_told_once() {
        assert_eq!(StudyUnit::Times.range(1.0, 2.0), "1.00 – 2.00 ×");
        assert_eq!(StudyUnit::Bytes.range(938.0, 1100.0), "938 B – 1.1 kB");
        let around =
            [StudyUnit::Ms.around(300.0, 4.0), StudyUnit::Ms.around(300.0, 0.01), StudyUnit::Count.around(270.0, 9.0)];
        assert_eq!(around, ["300 ± 4 ms", "300 ms", "270 ± 9"]);
    }

    #[test]
    fn point_folder_is_plain_ascii() {
        let scale = StudyScale::new(true, None);
        let point = StudyPoint::virtual_run("super node + multicast", 12.5, String::new(), scale).on_logarithmic_axis();
        assert_eq!((point.folder().as_str(), point.seeds), ("super-node---multicast_12-5", 3));
        assert_eq!((point.x, point.place), (12.5, 12.5_f64.log10()));
    }
}
