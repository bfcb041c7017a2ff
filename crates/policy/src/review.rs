//! Parts of a policy that are right, and hardly meant so.

use roost_wire::{Area, Labels, Role};
use wildmatch::WildMatch;

use crate::rule::{Effect, Rule, Who};
use crate::{Action, Member, Policy};

const MAX_NAMED: usize = 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The index of the rule that it is about, if it is about one.
    pub rule: Option<usize>,
    pub message: String,
}

impl Policy {
    /// Finds what is hardly meant. Without members it looks at the policy alone.
    pub fn review(&self, members: &[Member<'_>]) -> Vec<Warning> {
        let mut warnings: Vec<Warning> = (0..self.rules.len())
            .filter_map(|rule| {
                let message = self.never_fits(rule).or_else(|| self.fits_nobody(rule, members))?;
                Some(Warning { rule: Some(rule), message })
            })
            .collect();
        let general = |message| Warning { rule: None, message };
        warnings.extend(self.idle_hubs(members).into_iter().chain(self.idle_nodes(members)).map(general));
        warnings
    }

    /// True if there may be a service and a place at which some member may do so. Without members, any member.
    pub fn allows_somebody(&self, action: Action, members: &[Member<'_>]) -> bool {
        if members.is_empty() {
            return self.rules.iter().any(|rule| rule.allows_some(action));
        }
        members.iter().any(|member| self.allows_somewhere(*member, action))
    }

    /// True if there may be a service and a place at which the member may do so.
    pub fn allows_somewhere(&self, member: Member<'_>, action: Action) -> bool {
        let mut rules = self.rules.iter().filter(|rule| rule.is_about(member));
        rules.find_map(|rule| rule.decides_everywhere(action)).unwrap_or(false)
    }

    /// True if every rule denies the member everything.
    pub fn denies_all(&self, member: Member<'_>) -> bool {
        !Action::ALL.into_iter().any(|action| self.allows_somewhere(member, action))
    }

    fn never_fits(&self, index: usize) -> Option<String> {
        let rule = &self.rules[index];
        if !Action::ALL.into_iter().any(|action| rule.actions.contains(action)) {
            return Some("never decides: it names no action".to_owned());
        }
        if rule.services.as_ref().is_some_and(Vec::is_empty) {
            return Some("names an empty list of services: leave out `services` to mean all".to_owned());
        }
        let cover = (0..index).find(|earlier| self.rules[*earlier].covers(rule))?;
        Some(format!("never decides: {} decides all of it before", self.describe(cover)))
    }

    fn fits_nobody(&self, index: usize, members: &[Member<'_>]) -> Option<String> {
        let rule = &self.rules[index];
        if members.is_empty() || members.iter().any(|member| rule.is_about(*member)) {
            return None;
        }
        let Who { role, name, labels } = &rule.who;
        let role = role.map(|role| format!("the role {role}"));
        let name = name.as_ref().map(|name| format!("the name {}", name.pattern()));
        let labels = labels.iter().map(|(key, value)| format!("the label {key}={}", value.pattern()));
        let parts: Vec<String> = role.into_iter().chain(name).chain(labels).collect();
        Some(format!("is about no member of the group: nobody has {}", parts.join(" and ")))
    }

    /// Hubs that do not relay, or do not reflect.
    fn idle_hubs(&self, members: &[Member<'_>]) -> Vec<String> {
        let hubs: Vec<Member<'_>> = members.iter().copied().filter(|member| member.role != Role::Node).collect();
        let unknown = Labels::default();
        let some = [Role::SuperNode, Role::Server].map(|role| Member { role, name: "", labels: &unknown });
        let may = |action| match hubs.as_slice() {
            // Names and labels of hubs are not known, so that a rule about any hub counts.
            [] => {
                let about = |rule: &&Rule| some.iter().any(|hub| rule.who.role.is_none_or(|role| role == hub.role));
                self.rules.iter().filter(about).any(|rule| rule.allows_some(action))
            }
            hubs => hubs.iter().any(|hub| self.allows_somewhere(*hub, action)),
        };
        let relays = "no rule lets hubs request: flows that need a relay are denied";
        let reflects = "no rule lets hubs reflect: each subscriber gets a stream of its own, or none";
        let missing = [(Action::Request, relays), (Action::Reflect, reflects)].into_iter();
        missing.filter(|(action, _)| !may(*action)).map(|(_, message)| message.to_owned()).collect()
    }

    fn idle_nodes(&self, members: &[Member<'_>]) -> Option<String> {
        let nodes = members.iter().filter(|member| member.role == Role::Node && self.denies_all(**member));
        let names: Vec<&str> = nodes.map(|node| node.name).collect();
        let named = names.iter().take(MAX_NAMED).copied().collect::<Vec<_>>().join(", ");
        let more = if names.len() > MAX_NAMED { ", …" } else { "" };
        (!names.is_empty()).then(|| format!("{} of the group's nodes may do nothing: {named}{more}", names.len()))
    }
}

impl Rule {
    fn allows_some(&self, action: Action) -> bool {
        self.decides_everywhere(action) == Some(true)
    }

    /// The verdict at the service and place that are best for a member, as far as this rule decides it.
    fn decides_everywhere(&self, action: Action) -> Option<bool> {
        let is_about_some = !self.services.as_ref().is_some_and(Vec::is_empty);
        match self.effect {
            _ if !self.actions.contains(action) || !is_about_some => None,
            Effect::Allow => Some(true),
            Effect::Deny => (self.services.is_none() && self.area.is_none()).then_some(false),
        }
    }

    /// True if this rule surely fits every attempt that a later one fits.
    fn covers(&self, later: &Self) -> bool {
        let has_actions = |action| !later.actions.contains(action) || self.actions.contains(action);
        // A rule that allows fits no attempt without a service or place if it names some; one that denies does.
        let is_as_wide = self.effect == Effect::Deny || later.effect == Effect::Allow;
        let has_services = match (&self.services, &later.services) {
            (None, _) => true,
            (Some(own), Some(others)) => {
                is_as_wide && others.iter().all(|other| own.iter().any(|own| includes(own, other)))
            }
            (Some(_), None) => false,
        };
        let has_area = match (self.area, later.area) {
            (None, _) => true,
            (Some(own), Some(other)) => is_as_wide && includes_area(own, other),
            (Some(own), None) => own == Area::Anywhere && is_as_wide,
        };
        Action::ALL.into_iter().all(has_actions) && self.who.includes(&later.who) && has_services && has_area
    }
}

impl Who {
    fn includes(&self, other: &Self) -> bool {
        let has_name = self.name.as_ref().is_none_or(|own| match &other.name {
            Some(other) => includes(own, other),
            None => own.pattern() == "*",
        });
        let has_label =
            |(key, own): (&String, &WildMatch)| other.labels.get(key).is_some_and(|other| includes(own, other));
        self.role.is_none_or(|role| other.role == Some(role)) && has_name && self.labels.iter().all(has_label)
    }
}

/// True if a pattern surely matches all that another matches.
fn includes(own: &WildMatch, other: &WildMatch) -> bool {
    let (own_text, text) = (own.pattern(), other.pattern());
    own_text == "*" || own_text == text || !text.contains(['*', '?']) && own.matches(&text)
}

fn includes_area(own: Area, other: Area) -> bool {
    match (own, other) {
        (Area::Anywhere, _) => true,
        (_, Area::Exact(cell)) => own.contains(cell),
        (Area::Rectangle { .. } | Area::Radius { .. }, Area::Rectangle { min, max }) => {
            let corners = [min, max, roost_wire::Cell::new(min.x, max.y), roost_wire::Cell::new(max.x, min.y)];
            corners.into_iter().all(|corner| own.contains(corner))
        }
        _ => own == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warnings(text: &str, members: &[(Role, &str, &str)]) -> Vec<String> {
        let labels: Vec<Labels> = members.iter().map(|(.., labels)| labels.parse().unwrap()).collect();
        let members = members.iter().zip(&labels);
        let members: Vec<_> = members.map(|((role, name, _), labels)| Member { role: *role, name, labels }).collect();
        let policy: Policy = text.parse().unwrap();
        let said = |warning: Warning| match warning.rule {
            Some(rule) => format!("{} {}", policy.describe(rule), warning.message),
            None => warning.message,
        };
        policy.review(&members).into_iter().map(said).collect()
    }

    const HUBS: &str = "[[rule]]\nallow = [\"request\", \"reflect\"]\nwho = { role = \"supernode\" }\n";

    #[test]
    fn covered_rules_are_named() {
        let text = format!("{HUBS}[[rule]]\ndeny = [\"all\"]\nwho = {{ name = \"uav*\" }}\n");
        let covered = |rule: &str| {
            let found = warnings(&format!("{text}[[rule]]\n{rule}"), &[]);
            assert!(found.len() <= 1, "{found:?}");
            found == ["rule 3 never decides: rule 2 decides all of it before"]
        };
        assert!(covered("allow = [\"request\"]\nwho = { name = \"uav7\" }"));
        assert!(covered("allow = [\"request\"]\nwho = { name = \"uav*\", role = \"node\" }\nservices = [\"video\"]"));
        assert!(!covered("allow = [\"request\"]\nwho = { name = \"*7\" }"));
        assert!(!covered("allow = [\"request\"]"));
    }

    #[test]
    fn covering_rules_may_have_places() {
        let rule = |effect: &str, rest: &str| format!("[[rule]]\n{effect} = [\"lookup\"]\n{rest}\n");
        let rect = "area = { rect = { min = \"0,0\", max = \"9,9\" } }";
        let count = |first: String, second: String| warnings(&format!("{HUBS}{first}{second}"), &[]).len();
        assert_eq!(count(rule("deny", rect), rule("allow", "area = { at = \"3,3\" }")), 1);
        assert_eq!(count(rule("deny", rect), rule("allow", "area = { at = \"3,10\" }")), 0);
        assert_eq!(count(rule("allow", rect), rule("deny", "area = { at = \"3,3\" }")), 0, "of unknown places");
        assert_eq!(count(rule("allow", "services = [\"video\", \"t*\"]"), rule("allow", "services = [\"track\"]")), 1);
    }

    #[test]
    fn rules_about_nobody_are_named() {
        let text =
            format!("{HUBS}[[rule]]\nallow = [\"all\"]\nwho = {{ role = \"node\", labels = {{ team = \"rde\" }} }}");
        let found = warnings(&text, &[(Role::SuperNode, "sn1", ""), (Role::Node, "uav7", "team=red")]);
        let nobody = "rule 2 is about no member of the group: nobody has the role node and the label team=rde";
        assert_eq!(found, [nobody, "1 of the group's nodes may do nothing: uav7"]);
        assert!(warnings(&text, &[]).is_empty());
    }

    #[test]
    fn hubs_that_may_not_relay_are_noticed() {
        let nodes = "[[rule]]\nallow = [\"all\"]\nwho = { role = \"node\" }";
        for members in [&[][..], &[(Role::SuperNode, "sn1", ""), (Role::Node, "uav7", "")]] {
            let found = warnings(nodes, members);
            assert!(found[0].contains("relay") && found[1].contains("reflect") && found.len() == 2, "{found:?}");
        }
        assert!(warnings("[[rule]]\nallow = [\"all\"]", &[]).is_empty());
    }

    #[test]
    fn rules_that_name_nothing_are_noticed() {
        let found = warnings(&format!("{HUBS}[[rule]]\nallow = []\n[[rule]]\nallow = [\"all\"]\nservices = []"), &[]);
        assert!(found[0].contains("no action") && found[1].contains("empty list"), "{found:?}");
    }
}
