//! One rule of a policy.

use std::collections::BTreeMap;

use roost_wire::{Area, Cell, Role};
use wildmatch::WildMatch;

use crate::{Action, ActionSet, Attempt, Member, Verdict};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rule {
    pub(crate) title: Option<String>,
    pub(crate) effect: Effect,
    pub(crate) actions: ActionSet,
    pub(crate) who: Who,
    /// Patterns of names; `None` means every service.
    pub(crate) services: Option<Vec<WildMatch>>,
    pub(crate) area: Option<Area>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Allow,
    Deny,
}

/// The members that a rule is about: those with all that it names.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Who {
    pub(crate) role: Option<Role>,
    pub(crate) name: Option<WildMatch>,
    /// Patterns of values, by key.
    pub(crate) labels: BTreeMap<String, WildMatch>,
}

impl Rule {
    pub(crate) fn title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    pub(crate) fn is_about(&self, member: Member<'_>) -> bool {
        let Who { role, name, labels } = &self.who;
        role.is_none_or(|role| role == member.role)
            && name.as_ref().is_none_or(|pattern| pattern.matches(member.name))
            && labels.iter().all(|(key, pattern)| member.labels.get(key).is_some_and(|value| pattern.matches(value)))
    }

    pub(crate) fn denies(&self) -> bool {
        self.effect == Effect::Deny
    }

    pub(crate) fn may_be_about(&self, member: Role) -> bool {
        self.who.role.is_none_or(|role| role == member)
    }

    pub(crate) fn is_about_all(&self, members: Role) -> bool {
        let Who { name, labels, .. } = &self.who;
        self.may_be_about(members) && name.as_ref().is_none_or(|name| name.pattern() == "*") && labels.is_empty()
    }

    /// The verdict of this rule about an attempt whose place is the best for the member.
    pub(crate) fn judge_at_best(&self, rule: usize, action: Action, service: Option<&str>) -> Option<Verdict> {
        let fits = self.actions.contains(action) && self.is_about_service(service);
        match self.effect {
            Effect::Allow => fits.then_some(Verdict::Allowed(rule)),
            Effect::Deny => (fits && self.area.is_none()).then_some(Verdict::Denied(rule)),
        }
    }

    /// The verdict of this rule, whose index is `rule`, about an attempt of a member that it is about; `None` if it does
    /// not fit.
    pub(crate) fn judge(&self, rule: usize, attempt: &Attempt<'_>) -> Option<Verdict> {
        let fits = self.actions.contains(attempt.action)
            && self.is_about_service(attempt.service)
            && self.is_about_place(attempt.place);
        fits.then_some(match self.effect {
            Effect::Allow => Verdict::Allowed(rule),
            Effect::Deny => Verdict::Denied(rule),
        })
    }

    pub(crate) fn is_about_service(&self, service: Option<&str>) -> bool {
        let Some(patterns) = &self.services else { return true };
        service.map_or(self.effect == Effect::Deny, |service| patterns.iter().any(|pattern| pattern.matches(service)))
    }

    pub(crate) fn is_about_place(&self, place: Option<Cell>) -> bool {
        let Some(area) = &self.area else { return true };
        place.map_or(self.effect == Effect::Deny, |place| area.contains(place))
    }
}
