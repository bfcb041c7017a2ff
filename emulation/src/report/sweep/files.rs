//! Several runs as CSV.

use super::{Overview, Point};
use crate::report::csv::{Csv, number};
use crate::report::measure::Measure;

/// One figure of one run a row.
pub(super) fn runs(points: &[Point]) -> String {
    let mut csv = Csv::new("folder,topology,nodes,architecture,transport,varied,seed,valid,measure,value,unit");
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
            ]);
        }
    }
    csv.0
}

/// One figure of one cell a row: its mean over the seeds and the half-width of its 95 % interval.
pub(super) fn cells(overview: &Overview<'_>) -> String {
    let mut csv = Csv::new("family,series,x,x_is,runs,measure,mean,half_width,unit");
    for cell in &overview.cells {
        let Some(first) = cell.points.first() else { continue };
        let measures: Vec<&Measure> = first.measures.iter().map(|(measure, _)| measure).collect();
        for measure in measures {
            let Some((mean, half)) = cell.mean(measure) else { continue };
            csv.row([
                cell.family.clone(),
                cell.series.clone(),
                cell.x.name.clone(),
                overview.axes.x_title.clone(),
                cell.points.len().to_string(),
                measure.name.clone(),
                number(mean),
                half.map_or_else(String::new, number),
                measure.unit_name().to_owned(),
            ]);
        }
    }
    csv.0
}
