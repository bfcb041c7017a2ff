//! Facts about this machine, and its load, from `/proc`.

use std::collections::BTreeMap;
use std::fs;

/// Processor time of the whole machine.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Processors {
    pub busy: f64,
    pub all: f64,
}

impl Processors {
    /// The time until now; `None` if the system does not tell.
    pub fn now() -> Option<Self> {
        fs::read_to_string("/proc/stat").ok().and_then(|text| Self::read(&text))
    }

    fn read(text: &str) -> Option<Self> {
        let line = text.lines().next()?.strip_prefix("cpu ")?;
        // user nice system idle iowait irq softirq steal; guests are in user.
        let fields: Vec<f64> = line.split_whitespace().take(8).filter_map(|field| field.parse().ok()).collect();
        let all: f64 = fields.iter().sum();
        let idle = fields.get(3)? + fields.get(4)?;
        Some(Self { busy: all - idle, all })
    }

    /// The fraction of all processors in use since `earlier`, 0 to 1.
    pub fn busy_since(&self, earlier: &Self) -> Option<f64> {
        let all = self.all - earlier.all;
        (all > 0.0).then(|| ((self.busy - earlier.busy) / all).clamp(0.0, 1.0))
    }
}

pub fn facts() -> BTreeMap<String, String> {
    let read = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let mut facts = BTreeMap::new();
    let mut add = |name: &str, value: Option<String>| {
        facts.extend(value.map(|value| (name.to_owned(), value)));
    };
    add("system", read("/proc/sys/kernel/ostype"));
    add("kernel", read("/proc/sys/kernel/osrelease"));
    add("architecture", Some(std::env::consts::ARCH.to_owned()));
    add("processors", std::thread::available_parallelism().ok().map(|count| count.to_string()));
    add("processor", read("/proc/cpuinfo").and_then(|text| field(&text, "model name")));
    // Absent where the host of a virtual machine decides.
    add("governor", read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"));
    add("memory", read("/proc/meminfo").and_then(|text| field(&text, "MemTotal")));
    let load = |text: String| text.split(' ').take(3).collect::<Vec<_>>().join(" ");
    add("load_before", read("/proc/loadavg").map(load));
    facts
}

/// The value of the first line that begins with `name`.
fn field(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_once(':').map(|(_, value)| value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_described() {
        let facts = facts();
        assert!(facts.contains_key("kernel") && facts.contains_key("processors"), "{facts:?}");
        assert!(Processors::now().unwrap().all > 0.0);
    }

    #[test]
    fn disk_wait_is_not_busy() {
        let before = Processors::read("cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 1\n").unwrap();
        let after = Processors::read("cpu  150 0 125 850 75 0 0 0 0 0\n").unwrap();
        assert!((after.busy_since(&before).unwrap() - 0.375).abs() < 1e-12);
        assert_eq!((before.busy_since(&before), Processors::read("cpu 1 2")), (None, None));
    }

    #[test]
    fn kernel_fields_parse() {
        let text = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n";
        assert_eq!(field(text, "model name").as_deref(), Some("Some CPU @ 2 GHz"));
        assert_eq!(field(text, "governor"), None);
    }
}
