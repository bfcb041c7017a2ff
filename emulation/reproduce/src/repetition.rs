//! Commands that repeat a run, or its study if no command makes only the run.

use super::Store;
use super::study::{RunMethod, Study, StudyPoint, StudyScale};

/// A command, and the thing that it repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Repetition {
    pub(super) command: String,
    pub(super) subject: &'static str,
}

impl Repetition {
    pub(super) fn new(study: &Study, point: &StudyPoint, seed: u64, scale: StudyScale) -> Self {
        let plan = || Store::point(study.id, &point.folder()).join("plan.toml").display().to_string();
        let command = match &point.make {
            RunMethod::Virtual { .. } => format!("emulate simulate {} --seed {seed}", plan()),
            RunMethod::Emulated { .. } => format!("emulate run {} --seed {seed}", plan()),
            RunMethod::Growth { nodes, moving_s, lookups } => {
                format!("emulate growth {nodes} --moving {moving_s}s --lookups {lookups} --seed {seed}")
            }
            RunMethod::Areas(_) => return Self::whole(study, scale),
            RunMethod::Bench { args, .. } => format!("emulate bench {}", args.join(" ")),
        };
        Self { command, subject: "one" }
    }

    fn whole(study: &Study, scale: StudyScale) -> Self {
        let quick = if scale.is_quick { " --quick" } else { "" };
        let command = format!("emulate reproduce {}{quick} --seeds {} -o DIR", study.id, scale.seeds);
        Self { command, subject: "the study" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;

    fn repetition(id: &str, scale: StudyScale) -> Repetition {
        let studies = catalogue(scale);
        let study = studies.iter().find(|study| study.id == id).unwrap();
        Repetition::new(study, &study.points[0], 2, scale)
    }

    #[test]
    fn study_is_repeated_at_its_scale() {
        let quick = repetition("geodemlia-churn", StudyScale::new(true, None));
        let command = "emulate reproduce geodemlia-churn --quick --seeds 3 -o DIR".to_owned();
        assert_eq!(quick, Repetition { command, subject: "the study" });
        let full = repetition("geodemlia-churn", StudyScale::new(false, Some(9)));
        assert_eq!(full.command, "emulate reproduce geodemlia-churn --seeds 9 -o DIR");
    }

    #[test]
    fn run_is_repeated_with_its_seed() {
        let Repetition { command, subject } = repetition("sproull-fig4", StudyScale::new(true, None));
        assert!(command.starts_with("emulate simulate ") && command.ends_with("plan.toml --seed 2"), "{command}");
        assert_eq!(subject, "one");
    }
}
