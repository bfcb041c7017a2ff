//! Names of links and programs as names of files.

use std::fmt::Write as _;

/// Ends of names that would be those of another name's files.
const TAKEN: [&str; 3] = [".out", ".err", ".before"];

/// True if a link or program may have this name: it leads nowhere else as the name of a file.
pub(crate) fn is_file_name(name: &str) -> bool {
    !matches!(name, "." | "..") && !name.contains('/')
}

/// The name of a link or program as that of a file in its folder; other names have other files.
pub fn file_name(name: &str) -> String {
    let dot = TAKEN.iter().find(|end| name.ends_with(**end)).map(|end| name.len() - end.len());
    let is_dots = matches!(name, "." | "..");
    let mut text = String::with_capacity(name.len());
    for (at, c) in name.char_indices() {
        if c == '/' || c == '%' || c.is_control() || is_dots || dot == Some(at) {
            // Writing to a string cannot fail.
            let _ = write!(text, "%{:02X}", u32::from(c));
        } else {
            text.push(c);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn harmless_names_stay_as_they_are() {
        assert_eq!(["net-1", "Link to a.b", "..x"].map(file_name), ["net-1", "Link to a.b", "..x"]);
        let others = ["../../x", "..", ".", "a\0b", "a.out", "50%"].map(file_name);
        assert_eq!(others, ["..%2F..%2Fx", "%2E%2E", "%2E", "a%00b", "a%2Eout", "50%25"]);
    }

    proptest! {
        #[test]
        fn names_stay_apart_in_the_folder(a in "[./%a-c2EF\0]{1,6}", b in "[./%a-c2EF\0]{1,6}") {
            prop_assert!(is_file_name(&file_name(&a)));
            prop_assert_eq!(a == b, file_name(&a) == file_name(&b));
        }
    }
}
