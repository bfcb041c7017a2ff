//! The files of a twin: topology, plan, requests, and the sources of all values.

use crate::network::TwinNetwork;
use crate::observe::Observed;
use crate::plan::TwinPlan;
use crate::requests::RequestRow;
use crate::source::SourcedValue;

pub const TOPOLOGY_FILE: &str = "topology.toml";
pub const PLAN_FILE: &str = "plan.toml";
pub const REQUESTS_FILE: &str = "requests.csv";
pub const VALUES_FILE: &str = "values.csv";

#[derive(Clone, Debug, PartialEq)]
pub struct Twin {
    pub topology: String,
    pub plan: String,
    pub rows: Vec<RequestRow>,
    /// Each value of the network and the plan with its source.
    pub values: Vec<SourcedValue>,
    pub hosts: usize,
    pub is_star: bool,
    pub length: f64,
    pub remarks: Vec<String>,
}

impl Twin {
    pub fn new(observed: &Observed) -> Self {
        let (network, plan) = (TwinNetwork::new(observed), TwinPlan::new(observed));
        Self {
            topology: network.text(),
            plan: plan.text,
            rows: plan.rows,
            values: network.values.into_iter().chain(plan.values).collect(),
            hosts: observed.hosts.hosts.len(),
            is_star: observed.star.is_some(),
            length: observed.length,
            remarks: observed.remarks.clone(),
        }
    }

    /// The files with their names.
    ///
    /// # Errors
    /// Fails when a row cannot be written as CSV.
    pub fn files(&self) -> Result<[(&'static str, String); 4], csv::Error> {
        Ok([
            (TOPOLOGY_FILE, self.topology.clone()),
            (PLAN_FILE, self.plan.clone()),
            (REQUESTS_FILE, text(csv::Writer::from_writer(Vec::new()), &self.rows)?),
            (VALUES_FILE, self.values_text()?),
        ])
    }

    fn values_text(&self) -> Result<String, csv::Error> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(["object", "what", "value", "certainty", "source"])?;
        for value in &self.values {
            let certainty = value.certainty.to_string();
            writer.write_record([&value.object, value.what, &value.value, &certainty, &value.source])?;
        }
        finish(writer)
    }
}

fn text(mut writer: csv::Writer<Vec<u8>>, rows: &[RequestRow]) -> Result<String, csv::Error> {
    if rows.is_empty() {
        writer.write_record(["time_s", "node", "service", "target"])?;
    }
    rows.iter().try_for_each(|row| writer.serialize(row))?;
    finish(writer)
}

fn finish(writer: csv::Writer<Vec<u8>>) -> Result<String, csv::Error> {
    let bytes = writer.into_inner().map_err(|error| error.into_error())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
