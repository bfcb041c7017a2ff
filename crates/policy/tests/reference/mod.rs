//! A second evaluator of policies, which does without any of the first one's code. The seeded world of the core uses it,
//! too.
#![allow(unreachable_pub, clippy::unwrap_used, reason = "a test may stop where it stands")]

use std::fmt::Write as _;

use roost_policy::Action;
use roost_wire::Role;

#[derive(Clone, Debug)]
pub struct Model {
    pub deny: bool,
    pub actions: Vec<Action>,
    pub role: Option<Role>,
    pub name: Option<&'static str>,
    pub team: Option<&'static str>,
    pub services: Option<Vec<&'static str>>,
    pub area: Option<[i32; 4]>,
}

#[derive(Clone, Debug)]
pub struct Case {
    pub role: Role,
    pub name: &'static str,
    pub team: Option<&'static str>,
    pub action: Action,
    pub service: Option<&'static str>,
    pub place: Option<(i32, i32)>,
}

/// Tries every way in which `*` and `?` may stand for text.
fn fits(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern.split_first(), text.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => (0..=text.len()).any(|skip| fits(rest, &text[skip..])),
        (Some((b'?', rest)), Some((_, text))) => fits(rest, text),
        (Some((sign, rest)), Some((first, text))) => sign == first && fits(rest, text),
        _ => false,
    }
}

pub fn reference(rules: &[Model], case: &Case) -> Option<(usize, bool)> {
    for (index, rule) in rules.iter().enumerate() {
        let mut applies = rule.actions.contains(&case.action);
        applies &= rule.role.is_none() || rule.role == Some(case.role);
        applies &= rule.name.is_none_or(|pattern| fits(pattern.as_bytes(), case.name.as_bytes()));
        applies &= rule.team.is_none() || rule.team == case.team;
        if let Some(patterns) = &rule.services {
            applies &= match case.service {
                Some(service) => patterns.iter().any(|pattern| fits(pattern.as_bytes(), service.as_bytes())),
                None => rule.deny,
            };
        }
        if let Some([left, lower, right, upper]) = rule.area {
            applies &= match case.place {
                Some((x, y)) => left <= x && x <= right && lower <= y && y <= upper,
                None => rule.deny,
            };
        }
        if applies {
            return Some((index, !rule.deny));
        }
    }
    None
}

pub fn text(rules: &[Model]) -> String {
    let mut text = String::new();
    for rule in rules {
        let actions: Vec<String> = rule.actions.iter().map(|action| format!("{:?}", action.name())).collect();
        let effect = if rule.deny { "deny" } else { "allow" };
        writeln!(text, "[[rule]]\n{effect} = [{}]", actions.join(", ")).unwrap();
        if let Some(services) = &rule.services {
            writeln!(text, "services = {services:?}").unwrap();
        }
        if let Some([left, lower, right, upper]) = rule.area {
            writeln!(text, "area = {{ rect = {{ min = \"{left},{lower}\", max = \"{right},{upper}\" }} }}").unwrap();
        }
        writeln!(text, "[rule.who]").unwrap();
        if let Some(role) = rule.role {
            writeln!(text, "role = \"{role}\"").unwrap();
        }
        if let Some(name) = rule.name {
            writeln!(text, "name = {name:?}").unwrap();
        }
        if let Some(team) = rule.team {
            writeln!(text, "labels = {{ team = {team:?} }}").unwrap();
        }
    }
    text
}
