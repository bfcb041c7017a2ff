//! `lsearch` and `lsort`.

use std::cmp::Ordering;

use super::lists::bad_option;
use super::{Builtin, index, usage};
use crate::tcl::completion::{TclCompletion, TclResult, fail};
use crate::tcl::interp::TclInterpreter;
use crate::tcl::number::{self, Number};
use crate::tcl::value::TclValue;
use crate::tcl::{expr, glob};

pub(super) fn find(name: &str) -> Option<Builtin> {
    Some(match name {
        "lsearch" => lsearch,
        "lsort" => lsort,
        _ => return None,
    })
}

fn lsearch(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    usage(words, 2, 12, "lsearch ?option ...? list pattern")?;
    let (mut fits, mut all, mut inline, mut not, mut nocase, mut start) =
        (glob::matches as fn(&str, &str) -> bool, false, false, false, false, None);
    let mut options = words[1..words.len() - 2].iter();
    while let Some(option) = options.next() {
        match option.as_str() {
            "-exact" | "-sorted" | "-integer" | "-real" => fits = |pattern, text| pattern == text,
            "-glob" => fits = glob::matches,
            "-ascii" | "-dictionary" | "-increasing" => {}
            "-all" => all = true,
            "-inline" => inline = true,
            "-not" => not = true,
            "-nocase" => nocase = true,
            "-start" => start = options.next(),
            other => return Err(bad_option("lsearch", other)),
        }
    }
    let items = interp.list(&words[words.len() - 2])?;
    let fold = |text: &str| if nocase { text.to_lowercase() } else { text.to_owned() };
    let pattern = fold(words[words.len() - 1].as_str());
    interp.spend(items.len())?;
    interp.spend_search(pattern.len(), words[words.len() - 2].len())?;
    let first = match start {
        Some(start) => usize::try_from(index(start, items.len())?).unwrap_or(0),
        None => 0,
    };
    let mut found =
        (first..items.len()).filter(|&at| fits(&pattern, &fold(items[at].as_str())) != not).map(|at| match inline {
            true => items[at].clone(),
            false => TclValue::from(at),
        });
    match (all, found.next()) {
        (true, first) => Ok(TclValue::from_list(first.into_iter().chain(found).collect())),
        (false, Some(first)) => Ok(first),
        (false, None) if inline => Ok(TclValue::default()),
        (false, None) => Ok(TclValue::from("-1")),
    }
}

#[derive(Clone, Copy)]
enum SortOrder {
    Text,
    Folded,
    Dictionary,
    Integer,
    Real,
}

fn lsort(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    usage(words, 1, 12, "lsort ?option ...? list")?;
    let (mut kind, mut falling, mut unique, mut inner) = (SortOrder::Text, false, false, None);
    let mut options = words[1..words.len() - 1].iter();
    while let Some(option) = options.next() {
        match option.as_str() {
            "-ascii" => kind = SortOrder::Text,
            "-nocase" => kind = SortOrder::Folded,
            "-dictionary" => kind = SortOrder::Dictionary,
            "-integer" => kind = SortOrder::Integer,
            "-real" => kind = SortOrder::Real,
            "-increasing" => falling = false,
            "-decreasing" => falling = true,
            "-unique" => unique = true,
            "-index" => inner = options.next(),
            other => return Err(bad_option("lsort", other)),
        }
    }
    let items = interp.list(&words[words.len() - 1])?;
    interp.spend(items.len() * 2 + words[words.len() - 1].len() / 64)?;
    let mut keyed = Vec::with_capacity(items.len());
    for item in items.iter() {
        let key = match inner {
            Some(inner) => {
                let parts = interp.list(item)?;
                let at = index(inner, parts.len())?;
                usize::try_from(at).ok().and_then(|at| parts.get(at)).cloned().unwrap_or_default()
            }
            None => item.clone(),
        };
        keyed.push((key_of(kind, &key)?, item.clone()));
    }
    keyed.sort_by(|(a, _), (b, _)| if falling { a.compare(b).reverse() } else { a.compare(b) });
    if unique {
        // Of equal items the last one stays, as in Tcl.
        keyed.reverse();
        keyed.dedup_by(|(a, _), (b, _)| a.compare(b) == Ordering::Equal);
        keyed.reverse();
    }
    Ok(TclValue::from_list(keyed.into_iter().map(|(_, item)| item).collect()))
}

enum SortKey {
    Text(String),
    Number(Number),
    Dictionary(String),
}

fn key_of(kind: SortOrder, value: &TclValue) -> Result<SortKey, TclCompletion> {
    let text = value.as_str();
    let expected = |what: &str| fail(format!("expected {what} but got \"{}\"", expr::short(text)));
    match (kind, number::read(text)) {
        (SortOrder::Text, _) => Ok(SortKey::Text(text.to_owned())),
        (SortOrder::Folded, _) => Ok(SortKey::Text(text.to_lowercase())),
        (SortOrder::Dictionary, _) => Ok(SortKey::Dictionary(text.to_owned())),
        (SortOrder::Integer, Some(number @ Number::Integer(_))) | (SortOrder::Real, Some(number)) => {
            Ok(SortKey::Number(number))
        }
        (SortOrder::Integer, _) => expected("integer"),
        (SortOrder::Real, None) => expected("floating-point number"),
    }
}

impl SortKey {
    fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Text(a), Self::Text(b)) => a.cmp(b),
            (Self::Number(a), Self::Number(b)) => a.compare(*b).unwrap_or(Ordering::Equal),
            (Self::Dictionary(a), Self::Dictionary(b)) => dictionary(a, b),
            _ => Ordering::Equal,
        }
    }
}

/// Dictionary order: numbers inside compare by value, and letters without case, which only breaks ties.
fn dictionary(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a, b);
    loop {
        let (mut x, mut y) = (left.chars(), right.chars());
        match (x.next(), y.next()) {
            (None, None) => return a.cmp(b),
            (None, _) => return Ordering::Less,
            (_, None) => return Ordering::Greater,
            (Some(c), Some(d)) if c.is_ascii_digit() && d.is_ascii_digit() => {
                let (m, n) = (digits(left), digits(right));
                let (p, q) = (m.trim_start_matches('0'), n.trim_start_matches('0'));
                match p.len().cmp(&q.len()).then_with(|| p.cmp(q)) {
                    Ordering::Equal => (left, right) = (&left[m.len()..], &right[n.len()..]),
                    other => return other,
                }
            }
            (Some(c), Some(d)) => match c.to_lowercase().cmp(d.to_lowercase()) {
                Ordering::Equal => (left, right) = (x.as_str(), y.as_str()),
                other => return other,
            },
        }
    }
}

fn digits(text: &str) -> &str {
    &text[..text.bytes().take_while(u8::is_ascii_digit).count()]
}
