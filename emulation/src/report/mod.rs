//! What a run leaves behind: its records, its figures and its page.

pub mod record;
