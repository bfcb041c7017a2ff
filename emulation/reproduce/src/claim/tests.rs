use super::super::estimate::first_above;
use super::*;
use crate::study::Study;

/// Hand-made values of one measure.
#[derive(Default)]
struct ByHand(Vec<(&'static str, f64, Vec<f64>)>);

impl StudyValues for ByHand {
    fn at(&self, at: &MeasureKey) -> BTreeMap<u64, f64> {
        let found = self.0.iter().find(|(series, x, _)| *series == at.series && x.total_cmp(&at.x).is_eq());
        found.map(|(.., values)| (1..).zip(values.iter().copied()).collect()).unwrap_or_default()
    }

    fn places(&self, series: &str) -> Vec<f64> {
        self.0.iter().filter(|(of, ..)| *of == series).map(|(_, x, _)| *x).collect()
    }
}

/// Values of one position, by measure.
struct ByMeasure(Vec<(&'static str, Vec<f64>)>);

impl StudyValues for ByMeasure {
    fn at(&self, at: &MeasureKey) -> BTreeMap<u64, f64> {
        let found = self.0.iter().find(|(measure, _)| *measure == at.measure);
        found.map(|(_, values)| (1..).zip(values.iter().copied()).collect()).unwrap_or_default()
    }

    fn places(&self, _: &str) -> Vec<f64> {
        Vec::new()
    }
}

/// A claim of a paper that says 2 to 3 times, where more is better.
fn claim(ours: Estimator, says: PaperStatement, holds: Band) -> Claim {
    let (id, figure, sentence) = ("x".to_owned(), "Fig. 1", "It is so.".to_owned());
    Claim {
        id,
        figure,
        sentence,
        says,
        ours,
        unit: StudyUnit::Times,
        holds,
        better: PreferredAmount::More,
        why: "The reason.",
    }
}

fn ratio() -> Estimator {
    Estimator::Ratio(MeasureKey::new("p2p", 92.0, "m"), MeasureKey::new("cs", 92.0, "m"))
}

fn judged(p2p: &[f64], says: PaperStatement, holds: Band) -> (ClaimVerdict, Option<Amount>) {
    let values = ByHand(vec![("p2p", 92.0, p2p.to_vec()), ("cs", 92.0, vec![10.0; p2p.len()])]);
    let one = claim(ratio(), says, holds).judge(&values);
    (one.verdict, one.amount)
}

#[test]
fn figure_in_the_interval_is_equal() {
    let seen = [21.0, 22.0, 23.0];
    let says = |figure| judged(&seen, PaperStatement::exactly("x", figure), Band::Above(1.0));
    assert_eq!(says(2.1), (ClaimVerdict::Equal, None));
    assert_eq!(says(2.5), (ClaimVerdict::Holds, Some(Amount::Worse)));
    assert_eq!(says(1.9), (ClaimVerdict::Holds, Some(Amount::Better)));
}

#[test]
fn interval_within_a_range_is_equal() {
    let says = |seen: &[f64], from, to| judged(seen, PaperStatement::between("x", from, to), Band::Above(1.0));
    let seen = [21.0, 22.0, 23.0];
    assert_eq!(says(&seen, 1.9, 3.0), (ClaimVerdict::Equal, None));
    // 1.96 to 2.46: partly below.
    assert_eq!(says(&seen, 2.0, 3.0), (ClaimVerdict::Holds, Some(Amount::Unsure)));
    assert_eq!(says(&seen, 1.0, 2.0), (ClaimVerdict::Holds, Some(Amount::Unsure)));
    assert_eq!(says(&seen, 1.0, 1.9), (ClaimVerdict::Holds, Some(Amount::Better)));
    assert_eq!(says(&[54.0, 54.1, 54.2], 2.0, 5.0), (ClaimVerdict::Holds, Some(Amount::Better)));
}

#[test]
fn wide_interval_is_not_equal() {
    let seen = |unit, says, holds, values: &[f64]| {
        let values = ByHand(vec![("p2p", 92.0, values.to_vec())]);
        let mean = Estimator::Mean(MeasureKey::new("p2p", 92.0, "m"));
        let judged = Claim { unit, better: PreferredAmount::Less, ..claim(mean, says, holds) }.judge(&values);
        (judged.verdict, judged.amount)
    };
    let perhaps = (ClaimVerdict::Holds, Some(Amount::Unsure));
    // A change of 1 % in −4 to +6 %, and in +0.8 to +1.2 %.
    let change =
        |values: &[f64]| seen(StudyUnit::Change, PaperStatement::exactly("+1 %", 1.01), Band::Below(1.08), values);
    assert_eq!(change(&[0.99, 1.01, 1.03]), perhaps);
    assert_eq!(change(&[1.009, 1.01, 1.011]), (ClaimVerdict::Equal, None));
    // 6 % in 1 to 11 %; none in 0 to 1.2 %, and in 0 to 0.13 %.
    let percent = |figure, values: &[f64]| {
        seen(StudyUnit::Percent, PaperStatement::exactly("x", figure), Band::Between(-1.0, 30.0), values)
    };
    assert_eq!(percent(6.0, &[4.0, 6.0, 8.0]), perhaps);
    assert_eq!(percent(0.0, &[0.0, 0.4, 0.7]), perhaps);
    assert_eq!(percent(0.0, &[0.0, 0.03, 0.06]), (ClaimVerdict::Equal, None));
    // 10.1 ms at most: 0 to 12 ms decides nothing, and 9.9 to 10.3 ms everything.
    let most =
        |values: &[f64]| seen(StudyUnit::Ms, PaperStatement::exactly("10.1 ms", 10.1), Band::Below(10.1), values);
    assert_eq!(most(&[3.0, 5.0, 8.0]), (ClaimVerdict::Open, None));
    assert_eq!(most(&[10.0, 10.1, 10.2]), (ClaimVerdict::Equal, None));
}

#[test]
fn missing_crossing_does_not_hold() {
    let cross = Estimator::Crossing { above: "p2p", below: "cs", measure: "m", from_far: true };
    let values = ByHand(vec![
        ("cs", 1.0, vec![5.0, 5.0]),
        ("cs", 100.0, vec![9.0, 9.0]),
        ("p2p", 1.0, vec![10.0, 10.0]),
        ("p2p", 100.0, vec![10.0, 10.0]),
    ]);
    let judged = claim(cross, PaperStatement::between("about 50", 40.0, 60.0), Band::Above(30.0)).judge(&values);
    assert_eq!((judged.verdict, judged.amount), (ClaimVerdict::DoesNotHold, None));
}

#[test]
fn better_depends_on_the_direction() {
    let values = ByHand(vec![("p2p", 92.0, vec![880.0, 881.0, 882.0])]);
    let mean = Estimator::Mean(MeasureKey::new("p2p", 92.0, "m"));
    let of = |better| {
        let claim = Claim { better, ..claim(mean.clone(), PaperStatement::exactly("48 kB", 48e3), Band::Below(48e3)) };
        claim.judge(&values).amount
    };
    let amounts = [PreferredAmount::Less, PreferredAmount::More, PreferredAmount::Neither].map(of);
    assert_eq!(amounts, [Amount::Better, Amount::Worse, Amount::Other].map(Some));
}

#[test]
fn interval_on_both_sides_is_open() {
    let says = PaperStatement::Direction("more");
    assert_eq!(judged(&[21.0, 22.0, 23.0], says, Band::Above(2.0)), (ClaimVerdict::Open, None));
    assert_eq!(judged(&[21.0, 22.0, 23.0], says, Band::Above(1.9)), (ClaimVerdict::Holds, None));
    assert_eq!(judged(&[21.0, 22.0, 23.0], says, Band::Above(2.5)), (ClaimVerdict::DoesNotHold, None));
    // Equality is not more.
    assert_eq!(judged(&[10.0, 10.0, 10.0], says, Band::Above(1.0)), (ClaimVerdict::DoesNotHold, None));
}

#[test]
fn reasons_are_told_of_what_differs() {
    let values = ByHand(vec![("p2p", 92.0, vec![21.0, 22.0, 23.0]), ("cs", 92.0, vec![10.0, 10.0, 10.0])]);
    let why = |says, holds| claim(ratio(), says, holds).judge(&values).why;
    let equal = why(PaperStatement::exactly("2.1 ×", 2.1), Band::Above(1.0));
    assert_eq!(equal, "Ours: 2.20 × (1.96 – 2.46 ×); the paper's: 2.1 ×.");
    assert!(why(PaperStatement::exactly("3 ×", 3.0), Band::Above(1.0)).ends_with("The reason."));
    assert!(why(PaperStatement::between("2 to 3 ×", 2.0, 3.0), Band::Above(1.0)).ends_with(UNSURE));
    assert!(why(PaperStatement::Direction("more"), Band::Above(2.0)).ends_with(OPEN));
    let aim = why(PaperStatement::Nothing("at least 3 ×"), Band::Above(3.0));
    assert!(aim.contains("no paper has it, our aim: at least 3 ×.") && aim.ends_with("The reason."), "{aim}");
}

#[test]
fn interval_below_nothing_is_cut() {
    let values = ByHand(vec![("p2p", 92.0, vec![10.0, 20.0, 40.0])]);
    let mean = Estimator::Mean(MeasureKey::new("p2p", 92.0, "m"));
    let judged = claim(mean, PaperStatement::exactly("0", 0.0), Band::Below(85.0)).judge(&values);
    let amount = (judged.interval.map(|(low, _)| low), judged.amount);
    assert_eq!(amount, (Some(0.0), Some(Amount::Unsure)));
}

#[test]
fn nothing_is_told_without_runs() {
    let judged = claim(ratio(), PaperStatement::Direction("more"), Band::Above(1.0)).judge(&ByHand::default());
    assert_eq!(
        (judged.verdict, judged.ours, judged.why.as_str()),
        (ClaimVerdict::Open, None, "No valid run shows it.")
    );
}

#[test]
fn single_run_has_no_interval() {
    let values = ByHand(vec![("p2p", 92.0, vec![20.0]), ("cs", 92.0, vec![10.0])]);
    let judged = claim(ratio(), PaperStatement::between("2 to 3 ×", 2.0, 3.0), Band::Above(1.0)).judge(&values);
    assert_eq!((judged.ours, judged.interval, judged.amount), (Some(2.0), None, Some(Amount::Unsure)));
    assert!(judged.why.ends_with(ONE_RUN), "{}", judged.why);
}

#[test]
fn single_count_is_perhaps_equal() {
    let values = ByHand(vec![("p2p", 92.0, vec![7.0])]);
    let mean = Estimator::Mean(MeasureKey::new("p2p", 92.0, "m"));
    let judged = claim(mean, PaperStatement::exactly("7", 7.0), Band::Above(5.5)).judge(&values);
    assert_eq!((judged.verdict, judged.amount), (ClaimVerdict::Holds, Some(Amount::Unsure)));
}

/// Judged against an aim of 99 %, by the fraction and the count of each seed.
fn share(runs: &[(f64, f64)]) -> Judgement {
    let (parts, counts) = runs.iter().copied().unzip();
    let values = ByMeasure(vec![("success", parts), ("ended", counts)]);
    let ours = Estimator::Share { part: MeasureKey::new("p2p", 92.0, "success"), of: "ended" };
    Claim { unit: StudyUnit::Part, ..claim(ours, PaperStatement::Nothing("99 %"), Band::Above(0.99)) }.judge(&values)
}

#[test]
fn share_interval_stays_within_one() {
    let (low, high) = share(&[(1.0, 70.0), (1.0, 60.0), (1.0, 60.0)]).interval.unwrap();
    assert!(low > 0.97 && high == 1.0, "{low} {high}");
    // 171 of 190, though the fractions of three runs differ.
    let judged = share(&[(64.0 / 71.0, 71.0), (57.0 / 63.0, 63.0), (50.0 / 56.0, 56.0)]);
    assert!(judged.why.contains("That is 171 of 190."), "{}", judged.why);
    assert_eq!(judged.words(), "not met");
}

#[test]
fn part_of_few_requests_is_open() {
    assert_eq!(share(&[(1.0, 60.0), (1.0, 60.0)]).words(), "open");
    assert!(share(&[(1.0, 60.0)]).why.ends_with(FEW));
    assert_eq!(share(&[(1.0, 200.0), (1.0, 200.0)]).words(), "met");
    assert_eq!(share(&[(0.98, 200.0), (1.0, 200.0)]).words(), "open");
    assert_eq!(share(&[(0.9, 200.0), (1.0, 200.0)]).words(), "not met");
}

#[test]
fn run_that_counts_nothing_has_failed() {
    assert_eq!(share(&[(0.0, 0.0)]).words(), "not met");
    let judged = share(&[(1.0, 500.0), (0.0, 0.0)]);
    assert_eq!((judged.ours, judged.words()), (Some(0.5), "not met"));
}

#[test]
fn interval_touching_range_is_unsure() {
    let says = |seen: &[f64], from, to| judged(seen, PaperStatement::between("x", from, to), Band::Above(1.0));
    let perhaps = (ClaimVerdict::Holds, Some(Amount::Unsure));
    // 4.84 to 5.24, above a range that ends at 5; 1.51 to 2.08, below one that begins at 2.
    assert_eq!(says(&[49.5, 50.3, 51.1], 2.0, 5.0), perhaps);
    assert_eq!(says(&[16.6, 17.7, 18.9], 2.0, 3.0), perhaps);
    assert_eq!(says(&[51.1, 51.3, 51.5], 2.0, 5.0), (ClaimVerdict::Holds, Some(Amount::Better)));
}

#[test]
fn crossing_is_interpolated_per_seed() {
    let cross = Estimator::Crossing { above: "p2p", below: "cs", measure: "m", from_far: false };
    let values = ByHand(vec![
        ("cs", 100.0, vec![12.0, 14.0]),
        ("cs", 200.0, vec![9.0, 8.0]),
        ("cs", 300.0, vec![5.0, 5.0]),
        ("p2p", 100.0, vec![10.0, 10.0]),
        ("p2p", 200.0, vec![10.0, 10.0]),
        ("p2p", 300.0, vec![10.0, 10.0]),
    ]);
    // −2 to 1 at the first seed, −4 to 2 at the second: two thirds of the way each.
    let judged = claim(cross, PaperStatement::between("about 200", 150.0, 250.0), Band::Below(250.0)).judge(&values);
    assert_eq!(judged.ours, Some(166.667));
    assert_eq!(judged.verdict, ClaimVerdict::Equal);
}

#[test]
fn leading_series_crosses_at_sweep_edge() {
    let cross = |from_far| Estimator::Crossing { above: "p2p", below: "cs", measure: "m", from_far };
    let values = ByHand(vec![
        ("cs", 1.0, vec![5.0]),
        ("cs", 100.0, vec![9.0]),
        ("p2p", 1.0, vec![10.0]),
        ("p2p", 100.0, vec![10.0]),
    ]);
    let near = claim(cross(false), PaperStatement::Nothing("x"), Band::Below(2.0)).judge(&values);
    let far = claim(cross(true), PaperStatement::Nothing("x"), Band::Below(2.0)).judge(&values);
    assert_eq!((near.ours, far.ours), (Some(1.0), Some(100.0)));
    assert!(far.why.contains("ahead at 100 ×"), "{}", far.why);
    // A line that is not ahead at the end has no crossing.
    assert_eq!(first_above(&[(1.0, 3.0), (2.0, -1.0)]), None);
    let values = ByHand(vec![("cs", 1.0, vec![9.0]), ("p2p", 1.0, vec![5.0])]);
    let never = claim(cross(false), PaperStatement::Nothing("x"), Band::Below(2.0)).judge(&values);
    assert_eq!((never.verdict, never.ours), (ClaimVerdict::DoesNotHold, None));
}

/// The measures that a study draws, and those that its claims are about.
pub(crate) fn drawn_and_claimed(study: &Study) -> Vec<&str> {
    let claimed = study.claims.iter().flat_map(|claim| match &claim.ours {
        Estimator::Ratio(of, to) => vec![of.measure.as_str(), to.measure.as_str()],
        Estimator::Mean(of) => vec![of.measure.as_str()],
        Estimator::Share { part, of } => vec![part.measure.as_str(), *of],
        Estimator::Crossing { measure, .. } => vec![*measure],
    });
    study.plots.iter().map(|plot| plot.measure).chain(claimed).collect()
}
