//! The definition of a study: its runs, its plots, its claims.

use roost_sim::areas::AreaSettings;

use super::claim::{Claim, MeasureKey};
use super::estimate::Estimator;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Paper {
    /// Sproull, Lockwood and Meier 2007: the overlay.
    Sproull,
    /// Púdelka and Rebok 2009: reflectors.
    Erum,
    /// Sloatbeek 2005: bulk transfer.
    Wars,
    /// The paper of 2004 on SCTP for DRE systems.
    Dre,
    /// Gross et al. 2012: Geodemlia, a geographic DHT.
    Gross,
    Beyond,
}

impl Paper {
    pub const fn title(self) -> &'static str {
        match self {
            Self::Sproull => {
                "Sproull, Lockwood and Meier 2007: Management and Service Discovery in Satellite and Avionic Networks"
            }
            Self::Erum => "Púdelka and Rebok 2009: Enhanced UDP Packet Reflector – Erum",
            Self::Wars => "Sloatbeek 2005: Protocol Wars",
            Self::Dre => "2004: Using SCTP to Improve QoS and Network Fault-Tolerance of DRE Systems",
            Self::Gross => {
                "Gross et al. 2012: Geodemlia, A Robust Peer-to-Peer Overlay Supporting Location-Based Search (abstract only)"
            }
            Self::Beyond => "Beyond the papers",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StudyScale {
    /// All figures in minutes: shorter runs, fewer seeds and positions.
    pub is_quick: bool,
    /// Seeds of each position along a figure; they count from 1.
    pub seeds: u64,
}

impl StudyScale {
    /// This number of seeds, or the default: five, and three for a quick study.
    pub fn new(is_quick: bool, seeds: Option<u64>) -> Self {
        Self { is_quick, seeds: seeds.unwrap_or(if is_quick { 3 } else { 5 }) }
    }

    /// The length of a run of the published experiments, as plans write it.
    pub(super) const fn duration(self) -> &'static str {
        if self.is_quick { "3m" } else { "15m" }
    }

    /// The positions along a figure: all, or those of a quick study.
    pub(super) fn places<T: Clone>(self, all: &[T], quick: &[T]) -> Vec<T> {
        if self.is_quick { quick } else { all }.to_vec()
    }
}

/// An experiment of a paper, or one beyond it.
#[derive(Clone, Debug)]
pub struct Study {
    /// The name on the command line, and that of the folder.
    pub id: &'static str,
    pub paper: Paper,
    pub title: &'static str,
    /// The paper's experiment, and ours.
    pub about: &'static str,
    /// Values that the paper leaves out and that were inferred, one sentence each.
    pub inferred: Vec<&'static str>,
    pub axis: &'static str,
    /// True if the positions along it are kinds, which no line joins.
    pub has_kinds: bool,
    pub points: Vec<StudyPoint>,
    pub plots: Vec<Plot>,
    pub claims: Vec<Claim>,
}

/// A position of a line: runs that differ only in their seed.
#[derive(Clone, Debug)]
pub struct StudyPoint {
    pub series: String,
    pub x: f64,
    /// Position along the axis, if it is not the value itself.
    pub place: f64,
    pub name: String,
    pub make: RunMethod,
    /// The number of its seeds, from 1 on.
    pub seeds: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunMethod {
    /// In virtual time, from this plan, with the seed of the run.
    Virtual {
        plan: String,
        /// The topology's text, if no generator makes it: the plan names it `network.toml`.
        network: Option<String>,
    },
    /// By `emulate run`, with the real daemons on an emulated network, from a plan as above.
    Emulated { plan: String },
    /// In virtual time and at message level, like `emulate growth`: a forest that is measured while its nodes
    /// move, look one another up, and request.
    Growth {
        nodes: u32,
        /// The time for which they move without requests, seconds.
        moving_s: u16,
        /// The number of lookups, and of pairs of nodes that request, at each distance.
        lookups: u16,
    },
    /// In virtual time and at message level: searches while nodes come and go. The seed is the run's.
    Areas(AreaSettings),
    /// By `emulate bench` with these arguments, in real time, one at a time.
    Bench {
        args: Vec<String>,
        /// The fields of a row whose values form the names of its figures.
        by: &'static [&'static str],
        /// True if no other run of the reproduction may run meanwhile, not even on idle processors.
        is_alone: bool,
    },
}

impl RunMethod {
    /// True if it runs in real time, and does not repeat exactly.
    pub const fn is_real_time(&self) -> bool {
        matches!(self, Self::Emulated { .. } | Self::Bench { .. })
    }
}

impl Study {
    /// The name of the axis, which says so where it is logarithmic.
    pub(super) fn axis_title(&self) -> String {
        let is_long = self.points.iter().any(|point| point.place.total_cmp(&self.points[0].place).is_ne());
        let is_logarithmic = is_long && self.points.iter().all(StudyPoint::is_on_logarithmic_axis);
        format!("{}{}", self.axis, if is_logarithmic { " (logarithmic)" } else { "" })
    }

    /// True if the study's runs can decide a claim.
    pub fn shows(&self, claim: &Claim) -> bool {
        let is_run = |at: &MeasureKey| self.points.iter().any(|point| point.is_at(at));
        let has_line = |series: &str| self.points.iter().any(|point| point.series == series);
        match &claim.ours {
            Estimator::Mean(at) | Estimator::Share { part: at, .. } => is_run(at),
            Estimator::Ratio(of, to) => is_run(of) && is_run(to),
            Estimator::Crossing { above, below, .. } => has_line(above) && has_line(below),
        }
    }

    /// The part of the study in real time, or the other part, with its claims; `None` if it is empty.
    pub fn only(mut self, real_time: bool) -> Option<Self> {
        self.points.retain(|point| point.make.is_real_time() == real_time);
        let shown: Vec<Claim> = self.claims.iter().filter(|claim| self.shows(claim)).cloned().collect();
        (!self.points.is_empty()).then_some(Self { claims: shown, ..self })
    }
}

impl StudyPoint {
    /// True if it is at this position of this line.
    pub(super) fn is_at(&self, at: &MeasureKey) -> bool {
        self.series == at.series && self.x.total_cmp(&at.x).is_eq()
    }

    /// A position in virtual time, named by its value.
    pub(super) fn virtual_run(series: &str, x: f64, plan: String, scale: StudyScale) -> Self {
        let name = roost_report::text_format::three(x);
        Self {
            series: series.to_owned(),
            x,
            place: x,
            name,
            make: RunMethod::Virtual { plan, network: None },
            seeds: scale.seeds,
        }
    }

    /// Gives it another name and a position of its own along the axis.
    pub(super) fn named(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }

    /// Uses a network that no generator makes.
    pub(super) fn on(mut self, text: String) -> Self {
        if let RunMethod::Virtual { network, .. } = &mut self.make {
            *network = Some(text);
        }
        self
    }

    fn is_on_logarithmic_axis(&self) -> bool {
        self.x > 0.0 && (self.place - self.x.log10()).abs() < 1e-9
    }

    pub(super) fn on_logarithmic_axis(self) -> Self {
        Self { place: self.x.max(f64::MIN_POSITIVE).log10(), ..self }
    }

    /// The name in the study, which is also the folder's.
    pub fn folder(&self) -> String {
        let plain = |letter: char| if letter.is_ascii_alphanumeric() || letter == '_' { letter } else { '-' };
        format!("{}_{}", self.series, self.name).chars().map(plain).collect()
    }
}

#[derive(Clone, Debug)]
pub struct Plot {
    pub figure: &'static str,
    pub title: &'static str,
    pub measure: &'static str,
    pub unit: StudyUnit,
    /// A measure of these lines' runs, drawn as the limit of what is possible.
    pub limit: Option<PlotLimit>,
}

pub(super) const fn plot(figure: &'static str, title: &'static str, measure: &'static str, unit: StudyUnit) -> Plot {
    Plot { figure, title, measure, unit, limit: None }
}

impl Plot {
    /// Adds the lower bounds of latency from the runs of a line. A plot of anything but a service's mean
    /// latency stays unchanged.
    pub(super) fn beside_limit_of(self, series: &'static str) -> Self {
        const LIMITS: [&str; 4] = ["video.limit", "track.limit", "image.limit", "sensor.limit"];
        let service = self.measure.strip_suffix(".mean");
        let is_its = |limit: &&str| limit.strip_suffix(".limit") == service;
        let limit = LIMITS.into_iter().filter(|_| service.is_some()).find(is_its);
        Self { limit: limit.map(|measure| PlotLimit { series, measure }).or(self.limit), ..self }
    }
}

/// A limit that no system can exceed.
#[derive(Clone, Debug)]
pub struct PlotLimit {
    /// The line whose runs tell it.
    pub series: &'static str,
    pub measure: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StudyUnit {
    Count,
    Bytes,
    Ms,
    /// Megabits per second.
    MbitS,
    Times,
    /// A ratio, shown as the change from 1.
    Change,
    Part,
    Percent,
}

impl StudyUnit {
    pub fn show(self, value: f64) -> String {
        use roost_report::text_format::{bytes, milliseconds, percent, rate, ratio, three};
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

    /// Formats a range; a unit of both values is shown once.
    pub fn range(self, low: f64, high: f64) -> String {
        let (low, high) = (self.show(low), self.show(high));
        match (low.rsplit_once(' '), high.rsplit_once(' ')) {
            (Some((number, unit)), Some((_, other))) if unit == other => format!("{number} – {high}"),
            _ => format!("{low} – {high}"),
        }
    }

    /// Formats a mean and the half-width of its interval; the unit is shown once.
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

    /// The greatest measurable value, if there is one.
    pub(super) const fn most(self) -> Option<f64> {
        match self {
            Self::Part => Some(1.0),
            Self::Percent => Some(100.0),
            Self::Count | Self::Bytes | Self::Ms | Self::MbitS | Self::Times | Self::Change => None,
        }
    }

    /// The precision in which papers print it, for a figure of zero: a hundredth.
    pub(super) const fn step(self) -> f64 {
        match self {
            Self::Percent => 1.0,
            Self::Part | Self::Change => 0.01,
            Self::Count | Self::Bytes | Self::Ms | Self::MbitS | Self::Times => 0.0,
        }
    }

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
