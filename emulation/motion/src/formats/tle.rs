//! Two-line elements: sets of two lines, or of three with the satellite's name before.

use roost_geo::Orbit;

use super::TextMistake;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElementSet {
    pub name: Option<String>,
    pub lines: [String; 2],
}

/// Reads all sets of a file.
///
/// # Errors
/// Fails for lines out of order and sets that make no orbit, with the line.
pub fn read(text: &str) -> Result<Vec<ElementSet>, TextMistake> {
    let mut sets = Vec::new();
    let mut name = None;
    let mut lines = text.lines().zip(1..).map(|(line, number)| (line.trim_end(), number)).peekable();
    while let Some((line, number)) = lines.next() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        if !line.starts_with("1 ") {
            let text = line.strip_prefix("0 ").unwrap_or(line).trim();
            if line.starts_with("2 ") {
                return Err(TextMistake::new(number, "a line 2 without its line 1 before"));
            }
            name = Some(text.to_owned());
            continue;
        }
        let second = lines.next_if(|(line, _)| line.starts_with("2 "));
        let (second, _) = second.ok_or_else(|| TextMistake::new(number, "its line 2 must follow this line 1"))?;
        Orbit::from_tle(&format!("{line}\n{second}")).map_err(|error| TextMistake::new(number, error.to_string()))?;
        sets.push(ElementSet { name: name.take(), lines: [line.to_owned(), second.to_owned()] });
    }
    Ok(sets)
}
