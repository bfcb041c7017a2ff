//! Sources and sinks of the four Roost services.
