//! Several runs as CSV.

use super::{Overview, RunSummary};
use crate::csv::{Csv, number};

/// A figure of a run for each row.
pub(super) fn runs(points: &[RunSummary]) -> String {
    let mut csv =
        Csv::new("folder,topology,nodes,architecture,transport,varied,seed,valid,measure,value,unit,in_means,few");
    for point in points {
        let run = &point.run;
        let varied: Vec<String> = run.varied.iter().map(|(key, value)| format!("{key}={value}")).collect();
        for (measure, value) in &point.measures {
            csv.row([
                point.folder.display().to_string(),
                run.topology.clone(),
                run.nodes.to_string(),
                run.architecture.clone(),
                run.transport.clone(),
                varied.join(" "),
                run.seed.to_string(),
                u8::from(run.verdict.valid).to_string(),
                measure.name.clone(),
                number(*value),
                measure.unit_name().to_owned(),
                u8::from(point.unusable().is_empty()).to_string(),
                u8::from(measure.few).to_string(),
            ]);
        }
    }
    csv.0
}

/// A figure of a cell for each row: its mean over the seeds and the half-width of its 95 % interval. `runs`
/// is the number of runs that have it.
pub(super) fn cells(overview: &Overview<'_>) -> String {
    let mut csv = Csv::new("family,series,x,x_is,runs,measure,mean,half_width,unit,few");
    for cell in &overview.cells {
        for measure in cell.measures() {
            let Some(mean) = cell.mean(&measure) else { continue };
            csv.row([
                cell.family.clone(),
                cell.series.clone(),
                cell.x.name.clone(),
                overview.axes.x_title.clone(),
                mean.runs.to_string(),
                measure.name.clone(),
                number(mean.mean),
                mean.half.map_or_else(String::new, number),
                measure.unit_name().to_owned(),
                u8::from(mean.measure.few).to_string(),
            ]);
        }
    }
    csv.0
}
