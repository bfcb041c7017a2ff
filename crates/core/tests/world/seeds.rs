//! Seeds of a scenario, and the replay of one that fails.

use std::any::type_name;
use std::iter;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A scenario that fails with so many seeds is broken; the rest say nothing new.
const MAX_FAILURES: usize = 5;

/// Runs a scenario for `ROOST_SEEDS` seeds from `ROOST_FIRST_SEED` (0) on, or as many as it
/// takes by default; with `ROOST_SEED` for that one alone.
pub fn for_seeds<S: Fn(u64)>(default: u64, scenario: S) {
    each(range(default), scenario);
}

/// Runs a scenario that takes seconds: with a hundredth of the seeds.
pub fn for_few_seeds<S: Fn(u64)>(scenario: S) {
    each(range(1).step_by(100), scenario);
}

fn range(default: u64) -> Range<u64> {
    let first = setting("ROOST_FIRST_SEED").unwrap_or(0);
    first..first + setting("ROOST_SEEDS").unwrap_or(default)
}

/// A number that whoever starts the tests may set.
#[allow(clippy::disallowed_methods, reason = "what a run covers is for whoever starts it to say")]
pub fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

fn each<S: Fn(u64)>(seeds: impl Iterator<Item = u64>, scenario: S) {
    match setting("ROOST_SEED") {
        Some(seed) => all(iter::once(seed), scenario),
        None => all(seeds, scenario),
    }
}

fn all<S: Fn(u64)>(seeds: impl Iterator<Item = u64>, scenario: S) {
    let mut schedules = 0;
    let mut failures = Vec::new();
    for seed in seeds {
        schedules += 1;
        if let Err(cause) = catch_unwind(AssertUnwindSafe(|| scenario(seed))) {
            failures.push((seed, cause));
        }
        if failures.len() == MAX_FAILURES {
            break;
        }
    }
    // `scripts/soak` adds them up.
    println!("schedules: {schedules}");
    let Some((_, cause)) = failures.first() else { return };
    let said = cause.downcast_ref::<String>().cloned();
    let said = said.or_else(|| cause.downcast_ref::<&str>().map(|said| (*said).to_owned()));
    let replays: Vec<String> = failures.iter().map(|(seed, _)| replay(type_name::<S>(), *seed)).collect();
    panic!("{}\nTo replay:\n    {}", said.unwrap_or_default(), replays.join("\n    "));
}

/// The command that runs one seed of the test in which this closure is.
fn replay(closure: &str, seed: u64) -> String {
    let test = closure.split("::").skip(1).take_while(|part| !part.starts_with('{')).collect::<Vec<_>>().join("::");
    format!("ROOST_SEED={seed} cargo test -p roost-core --test scenarios {test} -- --exact")
}

#[test]
fn failing_seed_prints_replay_command() {
    let scenario = |seed: u64| assert!(seed < 3, "three is too many");
    let cause = catch_unwind(|| all(0..5, scenario)).unwrap_err();
    let said = cause.downcast_ref::<String>().unwrap();
    let test = "world::seeds::failing_seed_prints_replay_command";
    let command = |seed| format!("    ROOST_SEED={seed} cargo test -p roost-core --test scenarios {test} -- --exact");
    assert_eq!(said.lines().collect::<Vec<_>>(), ["three is too many", "To replay:", &command(3), &command(4)]);
}
