//! Plans: the real daemons under the workload of the published experiments.
