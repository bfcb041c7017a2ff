//! Policies against a second evaluator that does without any of the first one's code, and against bad texts.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod reference;

use std::sync::Arc;

use proptest::prelude::*;
use roost_policy::{Action, Attempt, Member, Policy, Verdict};
use roost_wire::{Cell, Labels, Role};

use reference::{Case, Model, reference, text};

const NAMES: [&str; 4] = ["uav1", "uav22", "ship1", "u"];
const NAME_PATTERNS: [&str; 6] = ["*", "uav*", "uav?", "ship1", "*1", "none"];
const SERVICES: [&str; 4] = ["video", "track", "acme/lidar", "acme/tiles"];
const SERVICE_PATTERNS: [&str; 5] = ["video", "*", "acme/*", "t*k", "none"];
const TEAMS: [Option<&str>; 3] = [None, Some("red"), Some("blue")];

fn models() -> impl Strategy<Value = Vec<Model>> {
    let one_in_two = |weight| proptest::option::weighted(weight, Just(()));
    let rule = (
        any::<bool>(),
        proptest::sample::subsequence(Action::ALL.to_vec(), 1..=4),
        proptest::option::of(proptest::sample::select(&Role::ALL[..])),
        (one_in_two(0.5), proptest::sample::select(&NAME_PATTERNS[..])),
        (one_in_two(0.3), proptest::sample::select(vec!["red", "blue"])),
        proptest::option::of(proptest::sample::subsequence(SERVICE_PATTERNS.to_vec(), 1..=2)),
        proptest::option::of(([0..8, 0..8], [0..8, 0..8])),
    );
    let rule = rule.prop_map(|(deny, actions, role, name, team, services, area)| Model {
        deny,
        actions,
        role,
        name: name.0.map(|()| name.1),
        team: team.0.map(|()| team.1),
        services,
        area: area.map(|([left, lower], [width, height])| [left, lower, left + width, lower + height]),
    });
    proptest::collection::vec(rule, 0..8)
}

fn cases() -> impl Strategy<Value = Case> {
    let case = (
        proptest::sample::select(&Role::ALL[..]),
        proptest::sample::select(&NAMES[..]),
        proptest::sample::select(&TEAMS[..]),
        proptest::sample::select(&Action::ALL[..]),
        proptest::option::weighted(0.9, proptest::sample::select(&SERVICES[..])),
        proptest::option::weighted(0.9, (0..16, 0..16)),
    );
    case.prop_map(|(role, name, team, action, service, place)| Case { role, name, team, action, service, place })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    /// Ten attempts for each of ten thousand policies.
    #[test]
    fn both_evaluators_agree(rules in models(), attempts in proptest::collection::vec(cases(), 10)) {
        let policy = Arc::new(text(&rules).parse::<Policy>().unwrap());
        for case in attempts {
            let labels = Labels::parse_all(case.team.map(|team| format!("team={team}")).as_deref()).unwrap();
            let member = Member { role: case.role, name: case.name, labels: &labels };
            let place = case.place.map(|(x, y)| Cell::new(x, y));
            let attempt = Attempt { action: case.action, service: case.service, place };
            let expected = match reference(&rules, &case) {
                Some((rule, true)) => Verdict::Allowed(rule),
                Some((rule, false)) => Verdict::Denied(rule),
                None => Verdict::NoRule,
            };
            prop_assert_eq!(policy.judge(member, &attempt), expected);
            let permissions = policy.permissions(member);
            prop_assert_eq!(permissions.judge(&attempt), expected);
            let best = permissions.judge_at_best(case.action, case.service);
            prop_assert!(best.is_allowed() || !expected.is_allowed());
            prop_assert!(expected.is_allowed() || !policy.allows_all(case.role, &attempt));
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in "[ -~\n]{0,200}") {
        drop(text.parse::<Policy>());
    }
}

#[test]
fn an_empty_policy_denies_everything() {
    let policy: Policy = "".parse().unwrap();
    let member = Member { role: Role::Node, name: "uav1", labels: &Labels::default() };
    for action in Action::ALL {
        let attempt = Attempt { action, service: Some("video"), place: Some(Cell::new(1, 1)) };
        assert_eq!(policy.judge(member, &attempt), Verdict::NoRule);
    }
}

#[test]
fn every_node_is_allowed_by_rules_about_all() {
    let attempt = Attempt { action: Action::Subscribe, service: Some("video"), place: Some(Cell::new(1, 1)) };
    let all = |text: &str| text.parse::<Policy>().unwrap().allows_all(Role::Node, &attempt);
    assert!(all("[[rule]]\nallow = [\"subscribe\"]"));
    assert!(all("[[rule]]\ndeny = [\"all\"]\nwho = { role = \"server\" }\n[[rule]]\nallow = [\"all\"]"));
    assert!(!all("[[rule]]\nallow = [\"subscribe\"]\nwho = { name = \"uav*\" }"));
    assert!(!all("[[rule]]\ndeny = [\"subscribe\"]\nwho = { name = \"uav7\" }\n[[rule]]\nallow = [\"all\"]"));
    assert!(!all(""));
}

#[test]
fn a_refusal_names_the_rule() {
    let policy: Policy = "[[rule]]\ndeny = [\"request\"]\ntitle = \"no guests\"".parse().unwrap();
    let attempt = Attempt { action: Action::Request, service: Some("video"), place: Some(Cell::new(27, 92)) };
    let said = |attempt: &Attempt<'_>| {
        let member = Member { role: Role::Node, name: "uav7", labels: &Labels::default() };
        policy.refusal("uav7", attempt, policy.judge(member, attempt))
    };
    let start = "the group's policy does not let uav7";
    assert_eq!(said(&attempt), format!("{start} request video at (27,92): rule 1, \"no guests\""));
    let send = Attempt { action: Action::Send, service: None, place: None };
    assert_eq!(said(&send), format!("{start} send files: no rule allows it"));
}

#[test]
fn all_mistakes_are_found_at_once() {
    let text = r#"
[[rule]]
allow = ["rekuest", "lookup", "wach"]
who = { role = "king" }
services = ["a b", "video"]
[[rule]]
title = 7
allow = ["all"]
[[rule]]
deny = ["all"]
area = { near = "1,1" }
"#;
    let found: Vec<_> = Policy::read(text).unwrap_err().iter().map(|mistake| (mistake.line, mistake.column)).collect();
    assert_eq!(found, [(3, 10), (3, 31), (4, 16), (5, 13), (7, 9), (11, 8)]);
    let found = Policy::read("[[rule]\nallow = [\n\n[[rule]]\nx = = 1\n").unwrap_err();
    assert!(found.len() > 1, "{found:?}");
}

#[test]
fn mistakes_have_line_and_column() {
    let long = format!("[[rule]]\nallow = [\"all\"]\ntitle = \"{}\"", "t".repeat(81));
    let many = "[[rule]]\nallow = [\"all\"]\n".repeat(257);
    let cases = [
        ("[[rule]]\nallow = [\"rekuest\"]", "line 2, column 10: \"rekuest\" is no action", "did you mean `request`?"),
        ("[[rule]]\nallow = [\"all\"]\ndeny = [\"all\"]", "line 1, column 1: ", "either `allow` or `deny`"),
        ("[[rule]]\n", "line 1, column 1: ", "either `allow` or `deny`"),
        ("[[rules]]\n", "line 1, column 3: ", "unknown field `rules`"),
        ("[[rule]]\nallow = [\"all\"]\nwho = { rol = \"node\" }", "line 3, column 9: ", "unknown field `rol`"),
        ("[[rule]]\nallow = [\"all\"]\nwho = { role = \"king\" }", "line 3, column 16: ", "unknown role \"king\""),
        ("[[rule]]\nallow = [\"all\"]\nservices = [\"a b\"]", "line 3, column 13: ", "without spaces"),
        (
            "[[rule]]\nallow = [\"all\"]\narea = { near = \"1,1\" }",
            "line 3, column 8: ",
            "at, within, rect or anywhere",
        ),
        ("[[rule]]\nallow = [\"all\"]\narea = { at = \"a\" }", "line 3, ", "is not a location"),
        ("allow = ", "line 1, ", ""),
        (&long, "line 3, column 9: ", "at most 80 bytes"),
        (&many, "line 513, column 1: ", "at most 256 rules"),
        (&"#".repeat(61 * 1024), "line 1, column 1: ", "at most 61440 bytes"),
    ];
    for (text, start, part) in cases {
        let message = text.parse::<Policy>().unwrap_err().to_string();
        assert!(message.starts_with(start) && message.contains(part), "{text:.60}: {message}");
    }
}
