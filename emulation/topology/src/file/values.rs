//! Values of keys.

use std::fmt;
use std::marker::PhantomData;
use std::net::Ipv4Addr;
use std::time::Duration;

use ::toml::Spanned;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::model::MAX_DELAY;
use crate::units::{format_duration, parse_duration, text_with_unit};

/// A text or a list of texts.
pub(super) struct Words(pub(super) Vec<Spanned<String>>);

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = Spanned::<OneOrMore>::deserialize(deserializer)?;
        let span = read.span();
        Ok(Self(match read.into_inner() {
            OneOrMore::One(word) => vec![Spanned::new(span, word)],
            OneOrMore::More(words) => words,
        }))
    }
}

enum OneOrMore {
    One(String),
    More(Vec<Spanned<String>>),
}

impl<'de> Deserialize<'de> for OneOrMore {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneOrMoreVisitor)
    }
}

struct OneOrMoreVisitor;

impl<'de> Visitor<'de> for OneOrMoreVisitor {
    type Value = OneOrMore;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a list of texts")
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<OneOrMore, E> {
        Ok(OneOrMore::One(word.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<OneOrMore, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(items)).map(OneOrMore::More)
    }
}

pub enum Switch<T> {
    Flag(bool),
    Table(T),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Switch<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SwitchVisitor(PhantomData))
    }
}

struct SwitchVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for SwitchVisitor<T> {
    type Value = Switch<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("struct")
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Switch<T>, E> {
        Ok(Switch::Flag(flag))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Switch<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Switch::Table)
    }
}

#[derive(Clone, Copy)]
pub(super) struct Pair(pub(super) i32, pub(super) i32);

impl<'de> Deserialize<'de> for Pair {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Vec::deserialize(deserializer).as_deref() {
            Ok(&[x, y]) => Ok(Self(x, y)),
            _ => Err(de::Error::custom("is two whole numbers: write [27, 92]")),
        }
    }
}

#[derive(Clone, Copy)]
pub(super) struct Whole<T, const LEAST: i64, const MOST: i64>(pub(super) T);

impl<'de, T: TryFrom<i64>, const LEAST: i64, const MOST: i64> Deserialize<'de> for Whole<T, LEAST, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = i64::deserialize(deserializer)?;
        let within = Some(number).filter(|number| (LEAST..=MOST).contains(number)).and_then(|it| T::try_from(it).ok());
        within.map(Self).ok_or_else(|| de::Error::custom(format!("is a whole number from {LEAST} to {MOST}")))
    }
}

fn number<'de, D: Deserializer<'de>>(from: D, least: f64, most: f64, meaning: &str) -> Result<Option<f64>, D::Error> {
    let number = f64::deserialize(from)?;
    let within = Some(number).filter(|number| (least..=most).contains(number));
    within.map(Some).ok_or_else(|| de::Error::custom(format!("is {meaning}")))
}

pub(super) fn probability<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    number(from, 0.0, 1.0, "a probability from 0 to 1: 1 % is 0.01")
}

pub(super) fn positive_probability<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    number(from, f64::MIN_POSITIVE, 1.0, "a probability above 0, up to 1")
}

pub(super) fn weight<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    number(from, f64::MIN_POSITIVE, 1.0, "a weight above 0, up to 1")
}

pub(super) fn cost<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    number(from, 0.001, 1e6, "a number from 0.001 to 1000000")
}

pub(super) fn interval<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    number(from, 1e-6, 1e6, "seconds between packets, from 0.000001 to 1000000")
}

pub(super) fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    parse_duration(&text_with_unit(from, "s")?).map(Some).map_err(de::Error::custom)
}

pub(super) fn delay<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let delay = time(from)?;
    let most = format_duration(MAX_DELAY);
    let within = delay.is_none_or(|delay| delay <= MAX_DELAY);
    within.then_some(delay).ok_or_else(|| de::Error::custom(format!("it is longer than {most}")))
}

pub(super) fn address<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Ipv4Addr>, D::Error> {
    read_address(&String::deserialize(from)?).map(Some).map_err(de::Error::custom)
}

pub(super) fn read_address(text: &str) -> Result<Ipv4Addr, String> {
    text.parse().map_err(|_| format!("`{text}` is no IPv4 address: write 10.1.1.2"))
}
