//! The real binaries from end to end, as operators and users run them. They are one program, since each
//! links all that Roost has.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop where it stands")]
#![allow(clippy::print_stdout, reason = "figures that a test comes to are worth knowing")]

mod caching;
mod clocks;
mod corpus;
mod datagrams;
mod demo;
mod documents;
mod failures;
mod far;
mod files;
mod greedy_streams;
mod hierarchy;
mod hostile_streams;
mod hostile_words;
mod inbox;
mod interop;
mod joining;
mod keeping;
mod key_frames;
mod links;
mod local_callers;
mod lying_provider;
mod monitor;
mod multicast;
mod names;
mod operator;
mod outages;
mod outbox;
mod packaging;
mod paths;
mod places;
mod readme;
mod reference;
mod reflect;
mod reflected_video;
mod renewal;
mod restarts;
mod rooms;
mod sending;
mod services;
mod shapes;
mod shares;
mod speech;
mod stream_failover;
mod stream_paths;
mod subscribe;
mod trace;
mod trust;
mod usage;
mod versions;
