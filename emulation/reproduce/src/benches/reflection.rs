//! Reflection, beyond the papers: one copy for all subscribers.

use super::{empty_study, point};
use crate::claim::{Band, Claim, MeasureKey, PaperStatement, PreferredAmount};
use crate::estimate::Estimator;
use crate::study::{Paper, Study, StudyScale, StudyUnit, plot};

/// Lines: name, case of the command, and number of receivers.
const CASES: [(&str, &str, u32); 5] = [
    (REFLECTED, "uplink", 4),
    (OWN, "direct", 4),
    (REFLECTED, "uplink", 1),
    (REFLECTED, "uplink", 8),
    (OWN, "direct", 8),
];
const REFLECTED: &str = "reflected";
const OWN: &str = "a stream each";
/// The most that one copy may take, relative to its payload: headers, seals and control are added.
const ONE_COPY: f64 = 1.25;

/// The load of a provider's uplink.
pub(super) fn study(scale: StudyScale) -> Study {
    let run = |(series, case, watchers): &(&str, &str, u32)| {
        let args = format!("subscription --case {case}-{watchers}");
        point(series, f64::from(*watchers), &watchers.to_string(), &args, &[], scale)
    };
    // Each receiver takes some seconds.
    let (most, cases) = if scale.is_quick { (4.0, &CASES[..2]) } else { (8.0, &CASES[..]) };
    let copies = |series| MeasureKey::new(series, most, "copies");
    let said = |id, sentence, aim, ours, most| {
        let (figure, says, holds, better) =
            ("beyond", PaperStatement::Nothing(aim), Band::Below(most), PreferredAmount::Less);
        let why = "Headers, seals, control and repairs take more than was reckoned with.";
        let (id, sentence, unit) = (str::to_owned(id), str::to_owned(sentence), StudyUnit::Times);
        Claim { id, figure, sentence, says, ours, unit, holds, better, why }
    };
    Study {
        title: "One copy for all who watch",
        about: "A provider of live video at one super node, receivers at another, 20 ms from one another, with the real \
                daemons: all bytes that leave the provider's host, with headers and control, in parts of those of the \
                video. Super nodes reflect the stream, or each receiver asks for one of its own.",
        inferred: Vec::new(),
        axis: "receivers",
        has_kinds: false,
        plots: vec![plot("beyond", "Copies on the provider's uplink", "copies", StudyUnit::Times)],
        claims: vec![
            said(
                "beyond-reflection",
                "All who watch one stream together cost its provider one copy, and a quarter for all else at most.",
                "1.25 copies at most",
                Estimator::Mean(copies(REFLECTED)),
                ONE_COPY,
            ),
            said(
                "beyond-reflection-saved",
                "That is the share of one of them in what as many streams cost, and a quarter more at most.",
                "1.25 copies of as many at most",
                Estimator::Ratio(copies(REFLECTED), copies(OWN)),
                ONE_COPY / most,
            ),
        ],
        ..empty_study("beyond-reflection", Paper::Beyond, cases.iter().map(run).collect())
    }
}
