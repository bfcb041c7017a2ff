//! Times to make and remove networks.

use std::fs;
use std::time::{Duration, Instant};

use crate::{BenchContext, BenchError, BenchRow, networks, system};

/// Hosts, and the longest time to make them.
const STARS: [(usize, Option<Duration>); 4] =
    [(11, None), (51, None), (101, Some(Duration::from_millis(300))), (501, Some(Duration::from_secs(2)))];
/// The kernel removes namespaces in the background, which must not count in the next one's set-up.
const BETWEEN: Duration = Duration::from_secs(1);

pub(crate) fn measure(bench: &mut BenchContext<'_>) -> Result<Vec<BenchRow>, BenchError> {
    let mut rows = Vec::new();
    let before = open_resources()?;
    for (hosts, target) in STARS {
        bench.sleep_unless_stopped(BETWEEN);
        if bench.is_stopped() {
            break;
        }
        let topology = networks::star(hosts);
        let began = Instant::now();
        let lab = bench.lab(&topology)?;
        let up = began.elapsed();
        let began = Instant::now();
        lab.stop(Duration::ZERO)?;
        rows.push(row(hosts, target, up, began.elapsed()));
    }
    rows.push(left_row(before, open_resources()?));
    Ok(rows)
}

/// Resources that are still open after all networks.
fn left_row(before: OpenResources, after: OpenResources) -> BenchRow {
    let files = after.files.saturating_sub(before.files);
    let interfaces = after.interfaces.saturating_sub(before.interfaces);
    let seen = format!("{files} open files, {interfaces} interfaces");
    BenchRow::judged("left of all of them", "nothing", seen, files == 0 && interfaces == 0)
        .with("files", files as f64)
        .with("interfaces", interfaces as f64)
}

fn row(hosts: usize, target: Option<Duration>, up: Duration, down: Duration) -> BenchRow {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let what = format!("{hosts} hosts, set-up and teardown");
    let seen = format!("{:.0} ms and {:.0} ms", ms(up), ms(down));
    let row = match target {
        Some(most) => {
            let target = format!("set-up < {:.0} ms", ms(most));
            let row = BenchRow::judged(what, target, seen, up < most);
            row.with_stretch_target(format!("each ≤ {:.0} ms", ms(most)), up <= most && down <= most)
        }
        None => BenchRow::shown(what, seen),
    };
    row.with("set_up_ms", ms(up)).with("teardown_ms", ms(down))
}

/// Open files of this process, and interfaces of its namespace.
#[derive(Clone, Copy, Debug)]
struct OpenResources {
    files: usize,
    interfaces: usize,
}

fn open_resources() -> Result<OpenResources, BenchError> {
    let files = fs::read_dir("/proc/self/fd").map_err(system("list open files"))?.count();
    let interfaces = fs::read_to_string("/proc/self/net/dev").map_err(system("list interfaces"))?.lines().count();
    Ok(OpenResources { files, interfaces })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BenchVerdict;

    #[test]
    fn only_setup_has_target() {
        let ms = Duration::from_millis;
        assert_eq!(row(11, None, ms(9), ms(900)).verdict, BenchVerdict::Shown);
        let slow_to_go = row(101, Some(ms(300)), ms(299), ms(900));
        assert_eq!((slow_to_go.verdict, slow_to_go.aim.map(|aim| aim.met)), (BenchVerdict::Met, Some(false)));
        assert_eq!(row(101, Some(ms(300)), ms(300), ms(1)).verdict, BenchVerdict::Missed);
    }

    #[test]
    fn leaked_interface_not_offset_by_files() {
        let before = OpenResources { files: 9, interfaces: 3 };
        assert_eq!(left_row(before, before).verdict, BenchVerdict::Met);
        for (files, interfaces) in [(8, 4), (10, 2), (10, 3)] {
            assert_eq!(
                left_row(before, OpenResources { files, interfaces }).verdict,
                BenchVerdict::Missed,
                "{files} {interfaces}"
            );
        }
    }
}
