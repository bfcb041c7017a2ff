//! `roost audit`: audit records are verified and shown.

use std::time::SystemTime;

use roost_audit::{AuditKind, AuditRecord, AuditReport, read, verify};
use roost_terminal::{Output, SCHEMA, Table};
use serde_json::{Value, json};

use crate::args::{AuditArgs, AuditCommand, AuditShowArgs, AuditVerifyArgs};
use crate::failure::{Code, Failure, Outcome};

/// Faults that are printed; the others are counted.
const MAX_SHOWN: usize = 20;

pub(crate) fn run(args: &AuditArgs, output: Output) -> Outcome {
    match &args.command {
        AuditCommand::Verify(args) => check(args, output),
        AuditCommand::Show(args) => show(args, output),
    }
}

fn check(args: &AuditVerifyArgs, output: Output) -> Outcome {
    let report = verify(&args.files, args.tip.as_deref()).map_err(unreadable)?;
    if output.is_json() {
        output.json(&as_json(&report))?;
    } else {
        for fault in report.faults.iter().take(MAX_SHOWN) {
            output.data(&format!("{fault}\n"))?;
        }
        say_more(&report, output);
    }
    match report.faults.len() {
        0 if output.is_json() => Ok(()),
        0 => {
            let (first, last) = (report.first, report.last);
            output.data(&format!(
                "{} records, {first} to {last}, are as written; tip {}\n",
                report.records, report.tip
            ))?;
            Ok(())
        }
        count => Err(Failure::new(Code::Damaged, format!("the records were changed: {count} faults"))),
    }
}

fn say_more(report: &AuditReport, output: Output) {
    if report.faults.len() > MAX_SHOWN {
        output.say(format!("{} more faults follow.", report.faults.len() - MAX_SHOWN));
    }
    if report.first > 1 {
        output.say(format!("Records before {} are in files that were not given.", report.first));
    }
    if let Some(file) = &report.torn {
        let file = file.display();
        output.say(format!("The last line of {file} was cut short, as a crash does; it counts as no record."));
    }
    if report.dropped > 0 {
        output.say(format!("The writer lost {} records, because the disk or its queue was full.", report.dropped));
    }
}

fn as_json(report: &AuditReport) -> Value {
    let faults =
        report.faults.iter().map(|fault| json!({"file": fault.file, "line": fault.line, "message": fault.message}));
    json!({
        "schema": SCHEMA, "records": report.records, "first": report.first, "last": report.last, "tip": report.tip,
        "torn": report.torn, "dropped": report.dropped, "faults": faults.collect::<Vec<Value>>()
    })
}

fn show(args: &AuditShowArgs, output: Output) -> Outcome {
    if let Some(unknown) = args.kinds.iter().find(|kind| !AuditKind::ALL.iter().any(|known| known.name() == *kind)) {
        let known: Vec<&str> = AuditKind::ALL.iter().map(|kind| kind.name()).collect();
        return Err(Failure::usage(format!("{unknown:?} is no kind of record: expected one of {}", known.join(", "))));
    }
    let begin = args.since.and_then(|since| SystemTime::now().checked_sub(since));
    let is_wanted = |record: &AuditRecord| {
        let is_recent =
            begin.is_none_or(|begin| humantime::parse_rfc3339(&record.time).is_ok_and(|time| time >= begin));
        is_recent && (args.kinds.is_empty() || args.kinds.contains(&record.kind))
    };
    let mut records = read(&args.files).map_err(unreadable)?;
    records.retain(is_wanted);
    if output.is_json() {
        for record in &records {
            output.json(record)?;
        }
        return Ok(());
    }
    let mut table = Table::new(&["TIME", ">RECORD", "KIND", "WHO", "DETAILS"]);
    for record in &records {
        let (time, number) = (record.time.clone(), record.sequence.to_string());
        table.row([time, number, record.kind.clone(), who(record), details(record)]);
    }
    Ok(output.table(&table)?)
}

fn who(record: &AuditRecord) -> String {
    let Some(who) = &record.who else { return "-".to_owned() };
    let short: String = who.id.chars().take(8).collect();
    who.name.as_ref().map_or(short.clone(), |name| format!("{name} ({short})"))
}

fn details(record: &AuditRecord) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if record.kind == AuditKind::ActionDenied.name() {
        return denial(|key| record.details.get(key).filter(|value| !value.is_null()).map(text));
    }
    record.details.iter().map(|(key, value)| format!("{key}={}", text(value))).collect::<Vec<_>>().join(" ")
}

/// Such as `request video at (27,92): rule 1, "no video", of policy 3; 12 more times`.
fn denial(detail: impl Fn(&str) -> Option<String>) -> String {
    let attempt: Vec<String> = ["action", "service", "area"].into_iter().filter_map(&detail).collect();
    let rule = detail("rule").map_or_else(String::new, |rule| format!(": {rule}"));
    let policy = detail("policy").map_or_else(String::new, |number| format!(", of policy {number}"));
    let more = detail("more").map_or_else(String::new, |count| format!("; {count} more times"));
    format!("{}{rule}{policy}{more}", attempt.join(" ")).trim_start_matches("; ").to_owned()
}

fn unreadable(error: std::io::Error) -> Failure {
    Failure::failed(format!("cannot read the records: {error}"))
}
