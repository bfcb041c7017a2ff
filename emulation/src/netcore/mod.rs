//! One link model in exact nanoseconds, without a clock.
