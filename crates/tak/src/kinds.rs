//! The types of events, by which TAK chooses a symbol for a node or target.

use std::str::FromStr;

use roost_services::track::cot::MAX_TYPE_BYTES;
use wildmatch::WildMatch;

pub(crate) const UNIT: &str = "a-f-G-U";
const SENSOR: &str = "a-f-G-E-S";
/// Friends on the ground, in the air and in space.
const GROUND: &str = "a-f-G";
const AIR: &str = "a-f-A";
const SPACE: &str = "a-f-P";
/// A place of a sensor, which is how TAK shows a camera.
pub(crate) const CAMERA: &str = "b-m-p-s-p-loc";
pub(crate) const DELETE: &str = "t-x-d-d";
pub(crate) const PING: &str = "t-x-c-t";
pub(crate) const PONG: &str = "t-x-c-t-r";

const AIR_SPEED_MPS: f64 = 70.0;
/// Higher than nearly all roads and houses.
const AIR_ALTITUDE_M: f64 = 5_500.0;
/// Space begins here, by the custom of aviators.
const SPACE_ALTITUDE_M: f64 = 100_000.0;

/// `uav*=a-f-A-M-F-Q`: the type of all whose name matches a pattern.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeRule {
    pattern: WildMatch,
    kind: String,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no type for names: expected a pattern, = and a type of CoT, such as uav*=a-f-A-M-F-Q")]
pub struct TypeRuleError(String);

impl FromStr for TypeRule {
    type Err = TypeRuleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || TypeRuleError(text.to_owned());
        let (pattern, kind) = text.rsplit_once('=').ok_or_else(wrong)?;
        if pattern.is_empty() || !is_type(kind) {
            return Err(wrong());
        }
        Ok(Self { pattern: WildMatch::new(pattern), kind: kind.to_owned() })
    }
}

/// True of a path of letters, digits, dots and dashes that begins with a lower-case letter.
pub(crate) fn is_type(kind: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    kind.len() <= MAX_TYPE_BYTES
        && kind.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase())
        && kind.bytes().all(is_plain)
}

/// The first rule's type for a name, if there is one.
pub(crate) fn named_kind<'a>(rules: &'a [TypeRule], name: &str) -> Option<&'a str> {
    rules.iter().find(|rule| rule.pattern.matches(name)).map(|rule| rule.kind.as_str())
}

/// Height and speed, as far as they are known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flight {
    pub(crate) altitude_m: Option<f64>,
    pub(crate) speed_mps: Option<f64>,
}

impl Flight {
    fn kind(self) -> Option<&'static str> {
        let is_at_least = |number: Option<f64>, least: f64| number.is_some_and(|number| number >= least);
        if is_at_least(self.altitude_m, SPACE_ALTITUDE_M) {
            Some(SPACE)
        } else if is_at_least(self.altitude_m, AIR_ALTITUDE_M) || is_at_least(self.speed_mps, AIR_SPEED_MPS) {
            Some(AIR)
        } else {
            None
        }
    }
}

/// The role of a node on the ground: a sensor is one that offers nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Sensor,
    Unit,
}

pub(crate) fn of_node(flight: Flight, role: Role) -> &'static str {
    flight.kind().unwrap_or(match role {
        Role::Sensor => SENSOR,
        Role::Unit => UNIT,
    })
}

pub(crate) fn of_target(flight: Flight) -> &'static str {
    flight.kind().unwrap_or(GROUND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_rule_counts() {
        let rules: Vec<TypeRule> = ["uav7=a-f-A-M-H", "uav*=a-f-A-M-F-Q", "*=a-n-G"].map(|r| r.parse().unwrap()).into();
        assert_eq!(named_kind(&rules, "uav7"), Some("a-f-A-M-H"));
        assert_eq!(named_kind(&rules, "uav12"), Some("a-f-A-M-F-Q"));
        assert_eq!(named_kind(&rules[..2], "truck"), None);
    }

    #[test]
    fn wrong_rules_are_refused() {
        for wrong in ["", "uav", "=a-f-G", "uav=", "uav=a f", "uav=\"/>", "uav=-a", &format!("u=a{}", "-f".repeat(40))]
        {
            assert!(wrong.parse::<TypeRule>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn height_and_speed_tell_what_flies() {
        let flight = |altitude_m, speed_mps| Flight { altitude_m: Some(altitude_m), speed_mps: Some(speed_mps) };
        assert_eq!(of_node(flight(1_600.0, 30.0), Role::Unit), "a-f-G-U");
        assert_eq!(of_node(flight(1_600.0, 117.0), Role::Unit), "a-f-A");
        assert_eq!(of_node(flight(9_000.0, 0.0), Role::Sensor), "a-f-A");
        assert_eq!(of_node(flight(420_000.0, 7_600.0), Role::Unit), "a-f-P");
        assert_eq!(of_node(Flight::default(), Role::Sensor), "a-f-G-E-S");
        assert_eq!(of_target(Flight::default()), "a-f-G");
    }
}
