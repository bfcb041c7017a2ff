//! The cost of an idle network.

use std::time::{Duration, Instant};

use crate::{BenchContext, BenchError, BenchRow, machine, networks};

const HOSTS: usize = 100;
const LENGTH: Duration = Duration::from_secs(10);
/// Initial traffic ends in this time.
const SETTLE: Duration = Duration::from_secs(1);
const TARGET_PERCENT: f64 = 0.5;
const AIM_PERCENT: f64 = 0.05;

pub(crate) fn measure(bench: &mut BenchContext<'_>) -> Result<Vec<BenchRow>, BenchError> {
    let lab = bench.lab(&networks::star(HOSTS))?;
    bench.sleep_unless_stopped(SETTLE);
    let (before, began) = (machine::processor_time(), Instant::now());
    bench.sleep_unless_stopped(bench.length(LENGTH));
    let used = machine::processor_time().saturating_sub(before);
    let part = used.as_secs_f64() / began.elapsed().as_secs_f64();
    drop(lab);
    Ok(vec![row(part)])
}

fn row(part: f64) -> BenchRow {
    let percent = part * 100.0;
    let what = format!("processor time of an idle network of {HOSTS} hosts");
    let target = format!("< {TARGET_PERCENT} % of one");
    BenchRow::judged(what, target, format!("{percent:.3} %"), percent < TARGET_PERCENT)
        .with_stretch_target(format!("< {AIM_PERCENT} %"), percent < AIM_PERCENT)
        .with("cpu_percent", percent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BenchVerdict;

    #[test]
    fn half_a_percent_is_too_much() {
        assert_eq!(row(0.0049).verdict, BenchVerdict::Met);
        assert_eq!(row(0.005).verdict, BenchVerdict::Missed);
    }
}
