//! The text of a policy: TOML, in which every mistake has its line and column.

use std::collections::BTreeMap;
use std::ops::Range;
use std::str::FromStr;

use roost_wire::{Area, Role};
use serde::Deserialize;
use toml::Spanned;
use wildmatch::WildMatch;

use crate::rule::{Effect, Rule, Who};
use crate::{Action, ActionSet, MAX_POLICY_BYTES, MAX_RULES, Policy};

/// The longest title of a rule, bytes.
const MAX_TITLE_BYTES: usize = 80;

/// The most patterns in one list, and labels in one rule.
const MAX_PATTERNS: usize = 32;

/// The longest pattern, bytes; no name of a member or a service is longer.
const MAX_PATTERN_BYTES: usize = 64;

/// The least similarity (Jaro–Winkler) of a misspelt action and its suggestion.
const NEAR: f64 = 0.75;

/// The text is no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct PolicyError {
    /// Counted from 1.
    pub line: usize,
    /// Counted from 1, in characters.
    pub column: usize,
    pub message: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyText {
    #[serde(default)]
    rule: Vec<Spanned<RuleText>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleText {
    title: Option<Spanned<String>>,
    allow: Option<Vec<Spanned<String>>>,
    deny: Option<Vec<Spanned<String>>>,
    #[serde(default)]
    who: WhoText,
    services: Option<Vec<Spanned<String>>>,
    area: Option<Spanned<Area>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WhoText {
    role: Option<Spanned<String>>,
    name: Option<Spanned<String>>,
    #[serde(default)]
    labels: BTreeMap<String, Spanned<String>>,
}

/// A mistake and the bytes of the text that it is about.
struct Mistake(Range<usize>, String);

impl FromStr for Policy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        if text.len() > MAX_POLICY_BYTES {
            let message = format!("a policy has at most {MAX_POLICY_BYTES} bytes, this one has {}", text.len());
            return Err(PolicyError { line: 1, column: 1, message });
        }
        let read: PolicyText = toml::from_str(text).map_err(|error| {
            let at = error.span().unwrap_or_default();
            locate(text, Mistake(at, error.message().trim_end().to_owned()))
        })?;
        if let Some(rule) = read.rule.get(MAX_RULES) {
            let message = format!("a policy has at most {MAX_RULES} rules");
            return Err(locate(text, Mistake(rule.span(), message)));
        }
        let rules = read.rule.into_iter().map(rule).collect::<Result<_, _>>();
        Ok(Self { rules: rules.map_err(|mistake| locate(text, mistake))? })
    }
}

fn locate(text: &str, Mistake(at, message): Mistake) -> PolicyError {
    let before = text.get(..at.start).unwrap_or_default();
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    PolicyError { line: before.matches('\n').count() + 1, column: before[line_start..].chars().count() + 1, message }
}

fn rule(read: Spanned<RuleText>) -> Result<Rule, Mistake> {
    let at = read.span();
    let RuleText { title, allow, deny, who: members, services, area } = read.into_inner();
    let (effect, actions) = match (allow, deny) {
        (Some(actions), None) => (Effect::Allow, actions),
        (None, Some(actions)) => (Effect::Deny, actions),
        _ => return Err(Mistake(at, "a rule has either `allow` or `deny`, a list of actions".to_owned())),
    };
    Ok(Rule {
        title: title.map(checked_title).transpose()?,
        effect,
        actions: action_set(&actions)?,
        who: who(members)?,
        services: services.map(patterns).transpose()?,
        area: area.map(checked_area).transpose()?,
    })
}

fn checked_title(title: Spanned<String>) -> Result<String, Mistake> {
    let is_plain = !title.get_ref().chars().any(char::is_control);
    if title.get_ref().len() <= MAX_TITLE_BYTES && is_plain {
        return Ok(title.into_inner());
    }
    Err(Mistake(title.span(), format!("a title is one line of at most {MAX_TITLE_BYTES} bytes")))
}

/// `all` stands for every action, also those that later versions add.
fn action_set(names: &[Spanned<String>]) -> Result<ActionSet, Mistake> {
    if names.iter().any(|name| name.get_ref() == "all") {
        return Ok(ActionSet::ALL);
    }
    names.iter().map(action).collect()
}

fn action(name: &Spanned<String>) -> Result<Action, Mistake> {
    name.get_ref().parse().map_err(|unknown: crate::UnknownAction| {
        let likeness = |action: &Action| strsim::jaro_winkler(name.get_ref(), action.name());
        let near = Action::ALL.into_iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
        let near = near.filter(|action| likeness(action) >= NEAR);
        let hint = near.map_or_else(String::new, |action| format!("; did you mean `{action}`?"));
        Mistake(name.span(), format!("{unknown} or all{hint}"))
    })
}

fn who(read: WhoText) -> Result<Who, Mistake> {
    let role =
        |role: Spanned<String>| role.get_ref().parse::<Role>().map_err(|error| Mistake(role.span(), error.to_string()));
    let label = |(key, value)| Ok((key, pattern(value)?));
    Ok(Who {
        role: read.role.map(role).transpose()?,
        name: read.name.map(pattern).transpose()?,
        labels: read.labels.into_iter().map(label).collect::<Result<_, _>>()?,
    })
}

fn patterns(texts: Vec<Spanned<String>>) -> Result<Vec<WildMatch>, Mistake> {
    if let Some(excess) = texts.get(MAX_PATTERNS) {
        return Err(Mistake(excess.span(), format!("a rule names at most {MAX_PATTERNS} services; `*` joins several")));
    }
    texts.into_iter().map(pattern).collect()
}

/// A name in which `*` stands for any text and `?` for any character.
fn pattern(text: Spanned<String>) -> Result<WildMatch, Mistake> {
    let is_plain = |character: char| character.is_ascii_graphic();
    if (1..=MAX_PATTERN_BYTES).contains(&text.get_ref().len()) && text.get_ref().chars().all(is_plain) {
        return Ok(WildMatch::new(text.get_ref()));
    }
    Err(Mistake(
        text.span(),
        format!("a pattern has 1 to {MAX_PATTERN_BYTES} letters, digits and signs, without spaces"),
    ))
}

/// A rule's area has edges, so `near` is none.
fn checked_area(area: Spanned<Area>) -> Result<Area, Mistake> {
    match area.get_ref() {
        Area::Nearest(_) => Err(Mistake(area.span(), "a rule's area is at, within, rect or anywhere".to_owned())),
        bounded if bounded.is_valid() => Ok(area.into_inner()),
        _ => Err(Mistake(area.span(), "this area is not on the grid".to_owned())),
    }
}
