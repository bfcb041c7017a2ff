//! The reasons for which rules do not decide about an attempt.

use crate::rule::Rule;
use crate::{Attempt, Member, Policy, Verdict};

/// A rule about the action of an attempt that does not fit the attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    pub rule: usize,
    /// The first part of the rule that does not fit, such as `it is about the services video`.
    pub reason: String,
}

impl Policy {
    /// The verdict, and the rules about the same action before the one that decides.
    pub fn explain(&self, member: Member<'_>, attempt: &Attempt<'_>) -> (Verdict, Vec<Misfit>) {
        let verdict = self.judge(member, attempt);
        let earlier = &self.rules[..verdict.rule().unwrap_or(self.rules.len())];
        let about = earlier.iter().enumerate().filter(|(_, rule)| rule.actions.contains(attempt.action));
        let misfit =
            |(index, rule): (usize, &Rule)| Some(Misfit { rule: index, reason: rule.misfit(member, attempt)? });
        (verdict, about.filter_map(misfit).collect())
    }
}

impl Rule {
    fn misfit(&self, member: Member<'_>, attempt: &Attempt<'_>) -> Option<String> {
        self.misfit_of_member(member).or_else(|| {
            if !self.is_about_service(attempt.service) {
                Some(format!("it is about the services {}", self.service_patterns()))
            } else if !self.is_about_place(attempt.place) {
                Some(self.area.map_or_else(String::new, |area| format!("its area is {area}")))
            } else {
                None
            }
        })
    }

    /// The first thing by which the rule is not about a member.
    pub(crate) fn misfit_of_member(&self, member: Member<'_>) -> Option<String> {
        let who = &self.who;
        if let Some(role) = who.role.filter(|role| *role != member.role) {
            return Some(format!("it is about the role {role}"));
        }
        if let Some(name) = who.name.as_ref().filter(|pattern| !pattern.matches(member.name)) {
            return Some(format!("it is about the name {}", name.pattern()));
        }
        who.labels.iter().find_map(|(key, pattern)| {
            let held = member.labels.get(key);
            let is_other = !held.is_some_and(|value| pattern.matches(value));
            let held = held.map_or_else(|| format!("no label {key}"), |value| format!("{key}={value}"));
            is_other.then(|| format!("it is about the label {key}={}, and the member has {held}", pattern.pattern()))
        })
    }

    pub(crate) fn service_patterns(&self) -> String {
        let texts = self.services.iter().flatten().map(|pattern| pattern.pattern());
        texts.collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Action;
    use roost_wire::{Cell, Labels, Role};

    #[test]
    fn each_earlier_rule_has_its_reason() {
        let policy: Policy = r#"
            [[rule]]
            allow = ["request"]
            who = { role = "supernode" }
            [[rule]]
            deny = ["request"]
            who = { name = "ship*" }
            [[rule]]
            deny = ["request"]
            who = { labels = { team = "blue" } }
            [[rule]]
            deny = ["lookup"]
            [[rule]]
            deny = ["request"]
            services = ["image", "sens*"]
            [[rule]]
            deny = ["request"]
            area = { at = "1,1" }
            [[rule]]
            allow = ["request"]
        "#
        .parse()
        .unwrap();
        let labels: Labels = "team=red".parse().unwrap();
        let member = Member { role: Role::Node, name: "uav7", labels: &labels };
        let attempt = Attempt { action: Action::Request, service: Some("video"), place: Some(Cell::new(2, 2)) };
        let (verdict, misfits) = policy.explain(member, &attempt);
        assert_eq!(verdict, Verdict::Allowed(6));
        let reasons: Vec<_> = misfits.iter().map(|misfit| (misfit.rule, misfit.reason.as_str())).collect();
        assert_eq!(
            reasons,
            [
                (0, "it is about the role supernode"),
                (1, "it is about the name ship*"),
                (2, "it is about the label team=blue, and the member has team=red"),
                (4, "it is about the services image, sens*"),
                (5, "its area is at (1,1)"),
            ]
        );
    }
}
