//! A group's policy: which member may do what, with which service, and where.
//!
//! A policy is a list of rules. The first rule that fits an attempt decides it; an attempt that no rule fits is denied.
//! A group without a policy allows its members everything. Nothing here reads a clock or a file: hub and provider ask the
//! same [`Permissions`], each for itself.
//!
//! ```
//! use roost_policy::{Action, Attempt, Member, Policy};
//! use roost_wire::{Cell, Labels, Role};
//!
//! let policy: Policy = r#"
//!     [[rule]]
//!     title = "the red team sees the south"
//!     allow = ["request", "lookup"]
//!     who = { role = "node", labels = { team = "red" } }
//!     services = ["video"]
//!     area = { rect = { min = "0,0", max = "99,49" } }
//! "#
//! .parse()?;
//! let labels = "team=red".parse::<Labels>()?;
//! let member = Member { role: Role::Node, name: "uav7", labels: &labels };
//! let south = Attempt { action: Action::Request, service: Some("video"), place: Some(Cell::new(27, 12)) };
//! assert!(policy.judge(member, &south).is_allowed());
//! let north = Attempt { place: Some(Cell::new(27, 92)), ..south };
//! assert!(!policy.judge(member, &north).is_allowed());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![allow(missing_docs, reason = "only crates of this workspace import it")]

mod action;
mod explanation;
mod file;
mod review;
mod rule;

use std::fmt;
use std::sync::Arc;

use roost_wire::{Cell, Labels, Role};

pub use action::{Action, ActionSet, UnknownAction};
pub use explanation::Misfit;
pub use file::PolicyError;
pub use review::Warning;
use rule::Rule;

/// The longest text of a policy, bytes: signed, it fits into one message.
pub const MAX_POLICY_BYTES: usize = 60 * 1024;

/// The most rules of a policy.
pub const MAX_RULES: usize = 256;

/// The rules of a group, in the order in which they are asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    rules: Vec<Rule>,
}

/// A member as rules see it: what its certificate says.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    pub role: Role,
    pub name: &'a str,
    pub labels: &'a Labels,
}

/// A member's wish to do something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt<'a> {
    pub action: Action,
    /// `None` if the action concerns no service in particular. It then counts as every service for a rule that denies,
    /// and as none for a rule that allows only some.
    pub service: Option<&'a str>,
    /// The place of the provider. If it is not known, it counts as inside the area of a rule that denies, and as
    /// outside that of a rule that allows.
    pub place: Option<Cell>,
}

/// The decision about an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The rule with this index allows it.
    Allowed(usize),
    /// The rule with this index denies it.
    Denied(usize),
    /// No rule fits, which denies it.
    NoRule,
}

impl Verdict {
    pub const fn is_allowed(self) -> bool {
        matches!(self, Self::Allowed(_))
    }

    /// The index of the rule that decides.
    pub const fn rule(self) -> Option<usize> {
        match self {
            Self::Allowed(rule) | Self::Denied(rule) => Some(rule),
            Self::NoRule => None,
        }
    }
}

impl Policy {
    pub fn judge(&self, member: Member<'_>, attempt: &Attempt<'_>) -> Verdict {
        self.first((0..self.rules.len()).filter(|rule| self.rules[*rule].is_about(member)), attempt)
    }

    /// The rules about one member, to be kept while it is connected.
    pub fn permissions(self: &Arc<Self>, member: Member<'_>) -> Permissions {
        let rules = (0..self.rules.len()).filter(|rule| self.rules[*rule].is_about(member));
        Permissions { policy: Arc::clone(self), rules: rules.collect() }
    }

    /// True if every member of this role may do so, whatever its name and labels.
    pub fn allows_all(&self, role: Role, attempt: &Attempt<'_>) -> bool {
        let fitting = self.rules.iter().filter(|rule| rule.may_be_about(role) && rule.judge(0, attempt).is_some());
        let mut decisive = fitting.filter(|rule| rule.denies() || rule.is_about_all(role));
        decisive.next().is_some_and(|rule| !rule.denies())
    }

    /// The refusal of an attempt, in one sentence that names the rule.
    pub fn refusal(&self, name: &str, attempt: &Attempt<'_>, verdict: Verdict) -> String {
        let Attempt { action, service, place } = *attempt;
        let object = service.map_or_else(String::new, |service| format!(" {service}"));
        let place = place.map_or_else(String::new, |Cell { x, y }| format!(" at ({x},{y})"));
        let rule = self.decisive(verdict);
        format!("the group's policy does not let {name} {}{object}{place}: {rule}", action.phrase())
    }

    /// The rule of a verdict, for people.
    pub fn decisive(&self, verdict: Verdict) -> String {
        verdict.rule().map_or_else(|| "no rule allows it".to_owned(), |rule| self.describe(rule).to_string())
    }

    /// Number and title of a rule, for people: `rule 2, "the red team sees the south"`.
    pub fn describe(&self, rule: usize) -> impl fmt::Display + '_ {
        Description { number: rule + 1, title: self.rules.get(rule).and_then(Rule::title) }
    }

    pub fn len(&self) -> usize {
        self.rules.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// `rules` are indices in ascending order.
    fn first(&self, mut rules: impl Iterator<Item = usize>, attempt: &Attempt<'_>) -> Verdict {
        rules.find_map(|rule| self.rules[rule].judge(rule, attempt)).unwrap_or(Verdict::NoRule)
    }
}

/// The rules of a policy that are about one member.
#[derive(Clone, Debug)]
pub struct Permissions {
    policy: Arc<Policy>,
    /// Indices in ascending order.
    rules: Box<[usize]>,
}

impl Permissions {
    pub fn judge(&self, attempt: &Attempt<'_>) -> Verdict {
        self.policy.first(self.rules.iter().copied(), attempt)
    }

    /// The verdict at the place that is best for the member. Denied means that every such attempt is denied, wherever
    /// the provider is.
    pub fn judge_at_best(&self, action: Action, service: Option<&str>) -> Verdict {
        let mut rules = self.rules.iter().copied();
        rules.find_map(|rule| self.policy.rules[rule].judge_at_best(rule, action, service)).unwrap_or(Verdict::NoRule)
    }

    pub fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }
}

struct Description<'a> {
    number: usize,
    title: Option<&'a str>,
}

impl fmt::Display for Description<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.title {
            Some(title) => write!(f, "rule {}, {title:?}", self.number),
            None => write!(f, "rule {}", self.number),
        }
    }
}
