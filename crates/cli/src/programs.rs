//! Roost's other programs, installed in the same folder.

use std::path::PathBuf;

use crate::failure::{Failure, Outcome};

pub(crate) fn find_program(name: &str) -> Outcome<PathBuf> {
    let own = std::env::current_exe().map_err(|error| Failure::failed(format!("cannot tell where I am: {error}")))?;
    let path = own.with_file_name(name);
    if path.is_file() {
        return Ok(path);
    }
    let folder = own.parent().unwrap_or(&own).display();
    Err(Failure::failed(format!(
        "{name} is not in {folder}, where this program is: install it there, or build all of them with `cargo build --bins`"
    )))
}
