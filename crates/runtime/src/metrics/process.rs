//! Metrics of the daemon's process, under the names that Prometheus' own clients use.

use std::time::{SystemTime, UNIX_EPOCH};

use prometheus::{Gauge, IntGauge};

use super::Metrics;

/// Gauges of this process, read from `/proc/self`.
#[derive(Clone)]
pub struct ProcessMetrics {
    cpu: Gauge,
    resident: IntGauge,
    open_files: IntGauge,
    threads: IntGauge,
    clock: Gauge,
}

impl ProcessMetrics {
    /// # Errors
    /// Fails if a name is taken.
    pub fn register(metrics: &Metrics) -> Result<Self, prometheus::Error> {
        let gauge = |name: &str, help: &str| metrics.register(IntGauge::new(name, help)?);
        let cpu = Gauge::new("process_cpu_seconds_total", "Processor time of the daemon, seconds.")?;
        Ok(Self {
            cpu: metrics.register(cpu)?,
            resident: gauge("process_resident_memory_bytes", "Memory of the daemon that is in use, bytes.")?,
            open_files: gauge("process_open_fds", "Files and sockets that the daemon has open.")?,
            threads: gauge("process_threads", "Threads of the daemon.")?,
            clock: metrics.register(Gauge::new("roost_clock_seconds", "The host's clock, Unix seconds.")?)?,
        })
    }

    /// Reads the gauges again. A value that the system does not tell stays as it was.
    pub fn update(&self) {
        self.clock.set(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |now| now.as_secs_f64()));
        let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        if let Some(Taken { cpu_ticks, threads, resident_pages }) =
            std::fs::read_to_string("/proc/self/stat").ok().and_then(|stat| taken(&stat))
        {
            self.cpu.set(cpu_ticks as f64 / rustix::param::clock_ticks_per_second() as f64);
            self.threads.set(whole(threads));
            self.resident.set(whole(resident_pages.saturating_mul(rustix::param::page_size() as u64)));
        }
        if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
            self.open_files.set(whole(files.count() as u64));
        }
    }
}

#[derive(Debug, PartialEq)]
struct Taken {
    cpu_ticks: u64,
    threads: u64,
    resident_pages: u64,
}

/// Reads `/proc/PID/stat` (proc(5)), whose second field may have spaces.
fn taken(stat: &str) -> Option<Taken> {
    let (_, rest) = stat.rsplit_once(')')?;
    // The first of `fields` is the third of the file.
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Taken { cpu_ticks: number(14)? + number(15)?, threads: number(20)?, resident_pages: number(24)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_is_measured() {
        let metrics = Metrics::new("node").unwrap();
        let process = ProcessMetrics::register(&metrics).unwrap();
        process.update();
        assert!(process.resident.get() > 100_000, "{}", process.resident.get());
        assert!(process.clock.get() > 1.7e9, "{}", process.clock.get());
        assert!(process.threads.get() >= 1 && process.open_files.get() >= 3);
    }

    #[test]
    fn name_with_spaces_is_no_field() {
        let stat = "7 (a (b) c) S 1 1 1 0 -1 4194304 100 0 0 0 30 12 0 0 20 0 5 0 100 1000000 250 0";
        let taken = taken(stat);
        assert_eq!(taken, Some(Taken { cpu_ticks: 42, threads: 5, resident_pages: 250 }));
    }
}
