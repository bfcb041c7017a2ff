//! The shell that the Roost daemons share: driver loop, configuration, metrics, logs, signals.
