//! The request mix of a class of nodes, with its pauses.

use std::fmt;
use std::str::FromStr;

use roost_topology::suggest;
use roost_wire::Service;
use roost_wire::random::SplitMix64;
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};

/// Weights are integers in thousandths of a percent, so that a draw is exact.
const WHOLE: u64 = 100_000;

const NAMES: [&str; 4] = ["star", "low", "tactical", "x45"];

/// The probabilities of each service and of a pause, at each decision of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// In thousandths of a percent: video, track, image, sensor, pause; together `WHOLE`.
    weights: [u64; 5],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draw {
    Ask(Service),
    Pause,
}

impl Mix {
    /// The star's nodes, and low-flying ones: Sproull et al. 2007, table 4.
    pub const LOW: Self = Self::percent([10, 45, 10, 25, 10]);
    /// Tactical nodes, from the same table.
    pub const TACTICAL: Self = Self::percent([25, 25, 25, 5, 20]);
    /// High-flying nodes, from the same table.
    pub const X45: Self = Self::percent([40, 5, 20, 5, 30]);

    /// Pauses alone, for nodes that only visit rooms.
    pub const IDLE: Self = Self::percent([0, 0, 0, 0, 100]);

    const fn percent(parts: [u64; 5]) -> Self {
        let [video, track, image, sensor, pause] = parts;
        let weights = [video * 1000, track * 1000, image * 1000, sensor * 1000, pause * 1000];
        assert!(video + track + image + sensor + pause == 100);
        Self { weights }
    }

    pub fn named(name: &str) -> Option<Self> {
        match name {
            "star" | "low" => Some(Self::LOW),
            "tactical" => Some(Self::TACTICAL),
            "x45" => Some(Self::X45),
            _ => None,
        }
    }

    pub fn draw(&self, random: &mut SplitMix64) -> Draw {
        let mut point = random.below(WHOLE);
        for (service, weight) in Service::ALL.into_iter().zip(self.weights) {
            if point < weight {
                return Draw::Ask(service);
            }
            point -= weight;
        }
        Draw::Pause
    }

    /// The percentages of video, track, image, sensor and pauses.
    pub fn percentages(&self) -> [f64; 5] {
        self.weights.map(|weight| weight as f64 / 1000.0)
    }

    fn from_percentages(parts: [f64; 5]) -> Result<Self, String> {
        if parts.iter().any(|part| !(0.0..=100.0).contains(part)) {
            return Err("a share is a percentage from 0 to 100".to_owned());
        }
        // In range, as checked above.
        let weights = parts.map(|part| (part * 1000.0).round() as u64);
        let sum: u64 = weights.iter().sum();
        if sum != WHOLE {
            return Err(format!("the shares of a mix add up to {} %, not to 100 %", sum as f64 / 1000.0));
        }
        match (Self { weights }) {
            Self::IDLE => {
                Err("a mix of nothing but idle asks for nothing: write mix = \"none\", or mix = \"idle\" in a \
                               plan with rooms"
                    .to_owned())
            }
            mix => Ok(mix),
        }
    }
}

impl FromStr for Mix {
    type Err = String;

    /// Reads a mix in the notation of the command line: the name of a built-in one, or
    /// `video=25,track=65,idle=10`.
    fn from_str(text: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct MixText {
            mix: Participation,
        }
        let value =
            if text.contains('=') { format!("{{ {text} }}") } else { toml::Value::String(text.to_owned()).to_string() };
        match toml::from_str::<MixText>(&format!("mix = {value}")) {
            Ok(MixText { mix: Participation::Active(mix) }) if mix != Self::IDLE => Ok(mix),
            Ok(_) => Err(format!("with the mix `{text}` nobody asks for anything")),
            Err(error) => Err(error.message().to_owned()),
        }
    }
}

/// A mix, or no participation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Participation {
    Active(Mix),
    None,
}

impl<'de> Deserialize<'de> for Participation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ParticipationVisitor)
    }
}

struct ParticipationVisitor;

impl<'de> Visitor<'de> for ParticipationVisitor {
    type Value = Participation;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, idle, none, or a table of percentages", NAMES.join(", "))
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<Participation, E> {
        let unknown = || {
            let near = suggest::did_you_mean(name, NAMES);
            E::custom(format!("there is no mix `{name}`: write {}, idle, or none{near}", NAMES.join(", ")))
        };
        match name {
            "none" => Ok(Participation::None),
            "idle" => Ok(Participation::Active(Mix::IDLE)),
            _ => Mix::named(name).map(Participation::Active).ok_or_else(unknown),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Participation, A::Error> {
        let shares = MixPercentages::deserialize(de::value::MapAccessDeserializer::new(map))?;
        let parts = [shares.video, shares.track, shares.image, shares.sensor, shares.idle];
        Mix::from_percentages(parts).map(Participation::Active).map_err(de::Error::custom)
    }
}

/// Percentages in a plan; the default is 0.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct MixPercentages {
    video: f64,
    track: f64,
    image: f64,
    sensor: f64,
    idle: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct MixTestFile {
        mix: Participation,
    }

    fn read(text: &str) -> Result<Participation, String> {
        toml::from_str::<MixTestFile>(text).map(|file| file.mix).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn mixes_are_named_or_written_out() {
        assert_eq!(read("mix = 'star'"), Ok(Participation::Active(Mix::LOW)));
        assert_eq!(read("mix = 'none'"), Ok(Participation::None));
        assert_eq!(read("mix = 'idle'"), Ok(Participation::Active(Mix::IDLE)));
        let written = read("mix = { video = 25, track = 25, image = 25, sensor = 5, idle = 20 }");
        assert_eq!(written, Ok(Participation::Active(Mix::TACTICAL)));
        assert!(read("mix = { sensor = 99.5, idle = 0.5 }").is_ok());
    }

    #[test]
    fn mix_text_equals_plan_mix() {
        assert_eq!("x45".parse(), Ok(Mix::X45));
        assert_eq!("video=25,track=25,image=25,sensor=5,idle=20".parse(), Ok(Mix::TACTICAL));
        assert!("idle=100".parse::<Mix>().unwrap_err().contains("asks for nothing"));
        for silent in ["none", "idle"] {
            assert!(silent.parse::<Mix>().unwrap_err().contains("nobody asks"));
        }
        assert!("vidio=100".parse::<Mix>().unwrap_err().contains("unknown field `vidio`"));
    }

    #[test]
    fn invalid_mix_is_refused() {
        assert_eq!(read("mix = { video = 50 }").unwrap_err(), "the shares of a mix add up to 50 %, not to 100 %");
        assert!(read("mix = { video = -1, track = 101 }").unwrap_err().contains("from 0 to 100"));
        let told = read("mix = { idle = 100 }").unwrap_err();
        assert!(told.contains("\"none\"") && told.contains("\"idle\" in a plan with rooms"), "{told}");
        assert!(read("mix = { vidio = 100 }").unwrap_err().contains("unknown field `vidio`"));
        assert!(read("mix = 'stars'").unwrap_err().contains("there is no mix `stars`"));
    }

    /// Pearson's chi-square of `draws` decisions against the mix, 4 degrees of freedom.
    fn chi_square(mix: Mix, seed: u64, draws: u64) -> f64 {
        let mut random = SplitMix64::new(seed);
        let mut seen = [0_u64; 5];
        for _ in 0..draws {
            match mix.draw(&mut random) {
                Draw::Ask(service) => seen[service.row()] += 1,
                Draw::Pause => seen[4] += 1,
            }
        }
        let expected = mix.weights.map(|weight| weight as f64 / WHOLE as f64 * draws as f64);
        seen.iter().zip(expected).map(|(seen, expected)| (*seen as f64 - expected).powi(2) / expected).sum()
    }

    #[test]
    fn draws_follow_the_published_tables() {
        // 18.47 is exceeded by chance once in a thousand.
        for (mix, seed) in [(Mix::LOW, 1), (Mix::TACTICAL, 2), (Mix::X45, 3)] {
            assert!(chi_square(mix, seed, 100_000) < 18.47, "{mix:?}");
        }
    }
}
