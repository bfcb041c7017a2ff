//! Reading of traces in both forms, with all mistakes at once.

use std::str::FromStr;
use std::time::Duration;

use super::TraceContent;
use super::steps::{Steps, TraceStep, TraceValues};
use crate::model::{MAX_DELAY, Note};
use crate::suggest::did_you_mean;
use crate::units::{Rate, parse_duration};

pub const MAX_TRACE_BYTES: u64 = 64 << 20;
/// The most rows of a CSV trace: at one a millisecond more than an hour.
const MAX_ROWS: usize = 4 << 20;
const MAX_PROBLEMS: usize = 100;

/// Reads a trace: Mahimahi's form if its first line is a whole number, else CSV.
///
/// # Errors
/// All mistakes, by line.
pub fn read_trace(text: &str) -> Result<TraceContent, Vec<Note>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut problems = Vec::new();
    let content = match lines(text).next() {
        None => {
            report(&mut problems, 0, "it has no lines");
            None
        }
        Some((_, first)) if first.bytes().all(|byte| byte.is_ascii_digit()) => opportunities(text, &mut problems),
        Some(_) => CsvReader::read(text, &mut problems),
    };
    content.filter(|_| problems.is_empty()).ok_or(problems)
}

/// The lines with content, with their numbers.
fn lines(text: &str) -> impl Iterator<Item = (u32, &str)> {
    let numbered = text.lines().enumerate().map(|(index, line)| (index as u32 + 1, line.trim()));
    numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

fn report(problems: &mut Vec<Note>, line: u32, text: impl Into<String>) {
    if problems.len() < MAX_PROBLEMS {
        problems.push(Note { line, text: text.into() });
    }
}

fn opportunities(text: &str, problems: &mut Vec<Note>) -> Option<TraceContent> {
    let (mut times, mut last) = (Vec::new(), 0);
    for (line, word) in lines(text) {
        match word.parse::<u32>() {
            Ok(time) if time >= last => {
                last = time;
                times.push(time);
            }
            Ok(time) => report(problems, line, format!("{time} ms comes after {last} ms: sort the lines")),
            Err(_) => report(problems, line, format!("`{word}` is no whole number of milliseconds")),
        }
    }
    if last == 0 {
        report(problems, 0, "it ends at 0 ms: its last line says after how long it begins again");
    }
    Some(TraceContent::Opportunities(times))
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Column {
    /// With the nanoseconds of its unit; `None` if each cell has a unit.
    Time(Option<f64>),
    /// With the bits a second of its unit.
    Rate(Option<f64>),
    Delay(Option<f64>),
    /// With the part that one stands for.
    Loss(f64),
    Up,
}

const COLUMNS: [(&str, Column); 22] = [
    ("time", Column::Time(None)),
    ("time_s", Column::Time(Some(1e9))),
    ("time_ms", Column::Time(Some(1e6))),
    ("time_us", Column::Time(Some(1e3))),
    ("time_ns", Column::Time(Some(1.0))),
    ("rate", Column::Rate(None)),
    ("rate_bps", Column::Rate(Some(1.0))),
    ("rate_kbps", Column::Rate(Some(1e3))),
    ("rate_mbps", Column::Rate(Some(1e6))),
    ("rate_gbps", Column::Rate(Some(1e9))),
    ("rate_bit", Column::Rate(Some(1.0))),
    ("rate_kbit", Column::Rate(Some(1e3))),
    ("rate_Mbit", Column::Rate(Some(1e6))),
    ("rate_Gbit", Column::Rate(Some(1e9))),
    ("delay", Column::Delay(None)),
    ("delay_s", Column::Delay(Some(1e9))),
    ("delay_ms", Column::Delay(Some(1e6))),
    ("delay_us", Column::Delay(Some(1e3))),
    ("delay_ns", Column::Delay(Some(1.0))),
    ("loss", Column::Loss(1.0)),
    ("loss_percent", Column::Loss(0.01)),
    ("up", Column::Up),
];

impl Column {
    /// The place of the column among the kinds, of which each may come once.
    const fn kind(self) -> usize {
        match self {
            Self::Time(_) => 0,
            Self::Rate(_) => 1,
            Self::Delay(_) => 2,
            Self::Loss(_) => 3,
            Self::Up => 4,
        }
    }
}

struct CsvReader<'p> {
    columns: Vec<Column>,
    problems: &'p mut Vec<Note>,
}

/// A row: its time in nanoseconds, and the values that its cells give.
struct CsvRow {
    line: u32,
    at: u64,
    values: TraceValues,
}

impl CsvReader<'_> {
    fn read(text: &str, problems: &mut Vec<Note>) -> Option<TraceContent> {
        let mut rows = lines(text);
        let (line, header) = rows.next()?;
        let columns = read_header(line, header, problems)?;
        let mut reader = CsvReader { columns, problems };
        let mut read: Vec<CsvRow> = Vec::new();
        for (line, row) in rows {
            if read.len() == MAX_ROWS {
                report(reader.problems, line, format!("it has more than {MAX_ROWS} rows"));
                return None;
            }
            let Some(row) = reader.row(line, row) else { continue };
            match read.last() {
                Some(last) if last.at >= row.at => {
                    report(reader.problems, line, "its time is not after that of the row before: sort the rows");
                }
                _ => read.push(row),
            }
        }
        reader.steps(line, read)
    }

    fn row(&mut self, line: u32, row: &str) -> Option<CsvRow> {
        let cells: Vec<&str> = row.split(',').map(str::trim).collect();
        if cells.len() != self.columns.len() {
            let (have, need) = (cells.len(), self.columns.len());
            report(self.problems, line, format!("it has {have} cells, and the header has {need}"));
            return None;
        }
        let (mut at, mut values) = (None, TraceValues::default());
        for (column, cell) in self.columns.iter().zip(cells) {
            if cell.is_empty() && !matches!(column, Column::Time(_)) {
                continue;
            }
            let read = match *column {
                Column::Time(unit) => nanoseconds(cell, unit).map(|time| at = Some(time)),
                Column::Rate(unit) => rate(cell, unit).map(|rate| values.rate = Some(rate)),
                Column::Delay(unit) => delay(cell, unit).map(|delay| values.delay = Some(delay)),
                Column::Loss(scale) => loss(cell, scale).map(|loss| values.loss = Some(loss)),
                Column::Up => up(cell).map(|is_up| values.is_up = Some(is_up)),
            };
            if let Err(error) = read {
                report(self.problems, line, error);
            }
        }
        Some(CsvRow { line, at: at?, values })
    }

    /// Fills empty cells with the value above them, counts times from the first row, and finds the end.
    fn steps(self, header: u32, rows: Vec<CsvRow>) -> Option<TraceContent> {
        let Some((first, last)) = rows.first().zip(rows.last()).filter(|_| rows.len() > 1) else {
            if self.problems.is_empty() {
                report(self.problems, header, "it has no two rows: the last row says when it ends");
            }
            return None;
        };
        let (begin, kinds) = (first.at, first.values);
        let has_all = self.columns.iter().all(|column| match column {
            Column::Time(_) => true,
            Column::Rate(_) => kinds.rate.is_some(),
            Column::Delay(_) => kinds.delay.is_some(),
            Column::Loss(_) => kinds.loss.is_some(),
            Column::Up => kinds.is_up.is_some(),
        });
        if !has_all {
            report(
                self.problems,
                first.line,
                "its first row has an empty cell: an empty cell keeps the value above it",
            );
        }
        // A last row with a time alone ends the trace; any other lasts as long as the row before it.
        let is_end = last.values == TraceValues::default();
        let period = match is_end {
            true => last.at - begin,
            false => last.at - begin + (last.at - rows[rows.len() - 2].at),
        };
        let count = rows.len() - usize::from(is_end);
        let mut now = TraceValues::default();
        let steps = rows.iter().take(count).map(|row| {
            now = TraceValues {
                rate: row.values.rate.or(now.rate),
                delay: row.values.delay.or(now.delay),
                loss: row.values.loss.or(now.loss),
                is_up: row.values.is_up.or(now.is_up),
            };
            TraceStep { at: row.at - begin, values: now }
        });
        let steps = Steps::new(steps.collect(), period);
        if steps.is_none() && self.problems.is_empty() {
            report(self.problems, header, "its rate is 0 from beginning to end");
        }
        steps.map(TraceContent::Steps)
    }
}

fn read_header(line: u32, header: &str, problems: &mut Vec<Note>) -> Option<Vec<Column>> {
    let mut columns: Vec<Column> = Vec::new();
    for name in header.split(',').map(str::trim) {
        let found = COLUMNS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, column)| *column);
        let Some(column) = found else {
            let near = did_you_mean(name, COLUMNS.iter().map(|(known, _)| *known));
            let known =
                "the columns are time, rate, delay, loss and up, with units such as time_s, rate_mbps, delay_ms";
            report(problems, line, format!("there is no column `{name}`{near}; {known}"));
            continue;
        };
        if columns.iter().any(|other| other.kind() == column.kind()) {
            report(problems, line, format!("`{name}` repeats what another column gives"));
        }
        columns.push(column);
    }
    if problems.is_empty() && !columns.iter().any(|column| column.kind() == 0) {
        report(problems, line, "it has no column for the time: write time_s");
    }
    if problems.is_empty() && columns.len() < 2 {
        report(problems, line, "it has no column beside the time: add rate_mbps, delay_ms, loss or up");
    }
    problems.is_empty().then_some(columns)
}

/// A number that is neither negative nor infinite.
fn number(cell: &str) -> Result<f64, String> {
    let number = f64::from_str(cell).ok().filter(|number| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| format!("`{cell}` is no number from 0 up"))
}

fn nanoseconds(cell: &str, unit: Option<f64>) -> Result<u64, String> {
    let Some(unit) = unit else {
        // Nanoseconds of a year fit.
        return parse_duration(cell).map(|time| time.as_nanos() as u64).map_err(|error| error.to_string());
    };
    // Whole numbers keep every digit: a time stamp in nanoseconds has more than a float.
    if let (Ok(whole), true) = (u64::from_str(cell), unit >= 1.0) {
        let time = whole.checked_mul(unit as u64).filter(|time| *time <= u64::MAX / 4);
        return time.ok_or_else(|| format!("the time `{cell}` is too large"));
    }
    let nanos = (number(cell)? * unit).round();
    if nanos > 4e18 {
        return Err(format!("the time `{cell}` is too large"));
    }
    Ok(nanos as u64)
}

fn rate(cell: &str, unit: Option<f64>) -> Result<u64, String> {
    let Some(unit) = unit else {
        if cell == "0" {
            return Ok(0);
        }
        let rate = Rate::from_str(cell).map_err(|error| error.to_string())?;
        return match rate.is_unlimited() {
            true => Err("a trace has no unlimited rate: leave the column out".to_owned()),
            false => Ok(rate.bps()),
        };
    };
    let bps = (number(cell)? * unit).round();
    if bps > 1e12 { Err(format!("`{cell}` is more than 1000 Gbit/s")) } else { Ok(bps as u64) }
}

fn delay(cell: &str, unit: Option<f64>) -> Result<Duration, String> {
    let delay = nanoseconds(cell, unit).map(Duration::from_nanos)?;
    if delay > MAX_DELAY { Err(format!("the delay `{cell}` is longer than an hour")) } else { Ok(delay) }
}

fn loss(cell: &str, scale: f64) -> Result<f64, String> {
    let loss = number(cell)? * scale;
    if loss > 1.0 { Err(format!("a loss of `{cell}` is more than all")) } else { Ok(loss) }
}

fn up(cell: &str) -> Result<bool, String> {
    match cell {
        "1" | "true" | "up" => Ok(true),
        "0" | "false" | "down" => Ok(false),
        _ => Err(format!("`{cell}` is neither 1 (up) nor 0 (down)")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn steps(text: &str) -> Steps {
        match read_trace(text) {
            Ok(TraceContent::Steps(steps)) => steps,
            other => panic!("{other:?}"),
        }
    }

    fn problems(text: &str) -> Vec<(u32, String)> {
        read_trace(text).unwrap_err().into_iter().map(|note| (note.line, note.text)).collect()
    }

    #[test]
    fn mahimahi_lines_are_milliseconds() {
        let content = read_trace("0\n1\n1\r\n\n5\n").unwrap();
        assert_eq!(content, TraceContent::Opportunities(vec![0, 1, 1, 5]));
        assert_eq!(content.period(), Duration::from_millis(5));
        assert_eq!(problems("3\nx\n2\n").iter().map(|(line, _)| *line).collect::<Vec<_>>(), [2, 3]);
        assert!(problems("0\n0\n")[0].1.contains("ends at 0 ms"));
        assert!(problems("")[0].1.contains("no lines"));
    }

    #[test]
    fn csv_counts_from_first_row() {
        let steps = steps("# made by hand\ntime_s,rate_mbps,delay_ms,loss\n100,1,20,0\n101,2.5,,0.5\n102,,30,\n");
        assert_eq!(steps.period(), 3_000_000_000);
        let values = steps.values(1_500_000_000);
        assert_eq!((values.rate, values.delay), (Some(2_500_000), Some(Duration::from_millis(20))));
        assert_eq!((values.loss, values.is_up), (Some(0.5), None));
        let last = steps.values(2_999_999_999);
        assert_eq!((last.rate, last.delay), (Some(2_500_000), Some(Duration::from_millis(30))));
    }

    #[test]
    fn row_without_values_ends_trace() {
        let steps = steps("time,rate,up\n0s,10Mbit,up\n200ms,0,\n700ms,,\n");
        assert_eq!((steps.period(), steps.steps().len()), (700_000_000, 2));
        assert_eq!(steps.values(300_000_000), TraceValues { rate: Some(0), is_up: Some(true), ..Default::default() });
    }

    #[test]
    fn all_mistakes_of_csv_are_told() {
        let told = problems("time_s,rate_mbps,loss\n0,1,0\n1,x,2\n0.5,1,0\n2,1\n");
        let lines: Vec<u32> = told.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [3, 3, 4, 5], "{told:?}");
        assert!(problems("time_s,rate_mbp\n0,1\n")[0].1.contains("did you mean `rate_mbps`"));
        assert!(problems("rate_mbps\n0\n")[0].1.contains("time_s"));
        assert!(problems("time_s,loss\n0,0.1\n")[0].1.contains("no two rows"));
        assert!(problems("time_s,rate_bps\n0,0\n1,0\n")[0].1.contains("rate is 0"));
        assert!(problems("time_s,rate_bps,loss\n0,5,\n1,6,0\n")[0].1.contains("empty cell"));
        assert!(problems("time_s,rate\n0,unlimited\n1,5kbit\n")[0].1.contains("no unlimited rate"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[0-9a-z_,.\n #-]{0,200}") {
            if let Ok(content) = read_trace(&text) {
                prop_assert!(!content.period().is_zero());
            }
        }

        #[test]
        fn any_cells_are_read_or_refused(rows in proptest::collection::vec("[0-9e.]{1,9},[0-9.e]{0,9},[0-9.]{0,4}", 0..9)) {
            let text = format!("time_s,rate_mbps,loss\n{}\n", rows.join("\n"));
            if let Err(problems) = read_trace(&text) {
                prop_assert!(!problems.is_empty());
            }
        }
    }
}
