//! The text of a policy: TOML, in which every mistake has its line and column.

use std::collections::BTreeMap;
use std::ops::Range;
use std::str::FromStr;

use roost_wire::{Area, Role};
use serde::Deserialize;
use serde::de::IntoDeserializer;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
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

#[derive(Default)]
struct Mistakes(Vec<Mistake>);

impl Mistakes {
    /// The value, or `None` after a mistake.
    fn sort_out<T>(&mut self, read: Result<T, Mistake>) -> Option<T> {
        read.map_err(|mistake| self.0.push(mistake)).ok()
    }

    /// All values, or `None` after any mistake.
    fn sort_out_all<T, C: FromIterator<T>>(&mut self, reads: impl Iterator<Item = Result<T, Mistake>>) -> Option<C> {
        let before = self.0.len();
        let values = reads.filter_map(|read| self.sort_out(read)).collect();
        (self.0.len() == before).then_some(values)
    }
}

impl From<toml::de::Error> for Mistake {
    fn from(error: toml::de::Error) -> Self {
        Self(error.span().unwrap_or_default(), error.message().trim_end().to_owned())
    }
}

impl FromStr for Policy {
    type Err = PolicyError;

    /// Reads a policy, or finds its first mistake.
    fn from_str(text: &str) -> Result<Self, PolicyError> {
        Self::read(text).map_err(|mut mistakes| mistakes.swap_remove(0))
    }
}

impl Policy {
    /// Reads a policy, or finds its mistakes, in the order of the text. There is at least one then. A text that is not
    /// TOML, and a rule with an unknown field, may have more of them than are found at once.
    ///
    /// # Errors
    /// The mistakes.
    pub fn read(text: &str) -> Result<Self, Vec<PolicyError>> {
        if text.len() > MAX_POLICY_BYTES {
            let message = format!("a policy has at most {MAX_POLICY_BYTES} bytes, this one has {}", text.len());
            return Err(vec![PolicyError { line: 1, column: 1, message }]);
        }
        let (table, faults) = DeTable::parse_recoverable(text);
        let mut mistakes = Mistakes(faults.into_iter().map(Mistake::from).collect());
        let rules = if mistakes.0.is_empty() { rules(table.into_inner(), &mut mistakes) } else { Vec::new() };
        if mistakes.0.is_empty() {
            return Ok(Self { rules });
        }
        mistakes.0.sort_by_key(|Mistake(at, _)| at.start);
        Err(mistakes.0.into_iter().map(|mistake| locate(text, mistake)).collect())
    }
}

fn rules(table: DeTable<'_>, mistakes: &mut Mistakes) -> Vec<Rule> {
    let mut found = Vec::new();
    for (key, value) in table {
        match (key.get_ref().as_ref(), value.get_ref()) {
            ("rule", DeValue::Array(rules)) => found.extend(rules.iter().cloned()),
            ("rule", _) => mistakes.0.push(Mistake(value.span(), "rules are a list: write [[rule]]".to_owned())),
            (other, _) => mistakes.0.push(Mistake(key.span(), format!("unknown field `{other}`, expected `rule`"))),
        }
    }
    if let Some(rule) = found.get(MAX_RULES) {
        mistakes.0.push(Mistake(rule.span(), format!("a policy has at most {MAX_RULES} rules")));
    }
    let read = |found: Spanned<DeValue<'_>>| {
        let at = found.span();
        let read = RuleText::deserialize(found.into_deserializer()).map_err(Mistake::from);
        mistakes.sort_out(read).and_then(|read| rule(at, read, mistakes))
    };
    found.into_iter().take(MAX_RULES).filter_map(read).collect()
}

fn locate(text: &str, Mistake(at, message): Mistake) -> PolicyError {
    let before = text.get(..at.start).unwrap_or_default();
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    PolicyError { line: before.matches('\n').count() + 1, column: before[line_start..].chars().count() + 1, message }
}

fn rule(at: Range<usize>, read: RuleText, mistakes: &mut Mistakes) -> Option<Rule> {
    let RuleText { title, allow, deny, who: members, services, area } = read;
    let choice = match (allow, deny) {
        (Some(actions), None) => Ok((Effect::Allow, actions)),
        (None, Some(actions)) => Ok((Effect::Deny, actions)),
        _ => Err(Mistake(at, "a rule has either `allow` or `deny`, a list of actions".to_owned())),
    };
    let choice = mistakes.sort_out(choice).map(|(effect, names)| (effect, action_set(&names, mistakes)));
    let title = mistakes.sort_out(title.map(checked_title).transpose());
    let who = who(members, mistakes);
    let services = services.map_or(Some(None), |texts| patterns(texts, mistakes).map(Some));
    let area = mistakes.sort_out(area.map(checked_area).transpose());
    let (effect, actions) = choice?;
    Some(Rule { title: title?, effect, actions: actions?, who: who?, services: services?, area: area? })
}

fn checked_title(title: Spanned<String>) -> Result<String, Mistake> {
    let is_plain = !title.get_ref().chars().any(char::is_control);
    if title.get_ref().len() <= MAX_TITLE_BYTES && is_plain {
        return Ok(title.into_inner());
    }
    Err(Mistake(title.span(), format!("a title is one line of at most {MAX_TITLE_BYTES} bytes")))
}

/// `all` stands for every action, also those that later versions add.
fn action_set(names: &[Spanned<String>], mistakes: &mut Mistakes) -> Option<ActionSet> {
    let is_all = |name: &&Spanned<String>| name.get_ref() == "all";
    let named = mistakes.sort_out_all(names.iter().filter(|name| !is_all(name)).map(action));
    if names.iter().any(|name| is_all(&name)) { named.map(|_: ActionSet| ActionSet::ALL) } else { named }
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

fn who(read: WhoText, mistakes: &mut Mistakes) -> Option<Who> {
    let role =
        |role: Spanned<String>| role.get_ref().parse::<Role>().map_err(|error| Mistake(role.span(), error.to_string()));
    let role = mistakes.sort_out(read.role.map(role).transpose());
    let name = mistakes.sort_out(read.name.map(pattern).transpose());
    let label = |(key, value)| Ok((key, pattern(value)?));
    let labels = mistakes.sort_out_all(read.labels.into_iter().map(label));
    Some(Who { role: role?, name: name?, labels: labels? })
}

fn patterns(texts: Vec<Spanned<String>>, mistakes: &mut Mistakes) -> Option<Vec<WildMatch>> {
    if let Some(excess) = texts.get(MAX_PATTERNS) {
        let message = format!("a rule names at most {MAX_PATTERNS} services; `*` joins several");
        mistakes.0.push(Mistake(excess.span(), message));
    }
    mistakes.sort_out_all(texts.into_iter().map(pattern))
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
