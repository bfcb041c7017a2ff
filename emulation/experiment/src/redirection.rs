//! Translation of csh redirections, since Emulab runs commands by csh, for sh.
//!
//! | csh | sh |
//! |---|---|
//! | `a >& file`, `a >&! file` | `a > file 2>&1` |
//! | `a >>& file`, `a >>&! file` | `a >> file 2>&1` |
//! | `a >! file`, `a >>! file` | `a > file`, `a >> file` |
//! | `a \|& b` | `a 2>&1 \| b` |
//!
//! None of them has a meaning in sh. Redirections of sh stay unchanged: `2>&1`, `>&2`, `>&-`, and so does
//! quoted text.

pub(super) fn for_sh(command: &str) -> String {
    let mut rest = Rest(command);
    let mut said = String::with_capacity(command.len() + 8);
    while !rest.0.is_empty() {
        if let Some(redirection) = rest.redirection() {
            said.push_str(&redirection);
        } else {
            said.push_str(rest.part());
        }
    }
    said
}

struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    fn take_bytes(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.0.split_at(bytes.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Takes a character, or a quoted part.
    fn part(&mut self) -> &'a str {
        let mut letters = self.0.char_indices();
        let length = match letters.next() {
            Some((_, '\\')) => letters.next().map_or(1, |(at, letter)| at + letter.len_utf8()),
            Some((_, quote @ ('\'' | '"' | '`'))) => {
                let mut escaped = false;
                let end = letters.find(|(_, letter)| {
                    let ends = *letter == quote && !escaped;
                    escaped = *letter == '\\' && !escaped && quote != '\'';
                    ends
                });
                end.map_or(self.0.len(), |(at, _)| at + 1)
            }
            Some((_, letter)) => letter.len_utf8(),
            None => 0,
        };
        self.take_bytes(length)
    }

    /// Takes a redirection that only csh has; `None` if something else comes next.
    fn redirection(&mut self) -> Option<String> {
        if self.0.starts_with("|&") {
            self.take_bytes(2);
            return Some("2>&1 |".to_owned());
        }
        let arrow = if self.0.starts_with(">>") { ">>" } else { self.0.strip_prefix('>').map(|_| ">")? };
        let after = &self.0[arrow.len()..];
        let (is_both, after) = after.strip_prefix('&').map_or((false, after), |after| (true, after));
        let (is_forced, after) = after.strip_prefix('!').map_or((false, after), |after| (true, after));
        let mut file = Rest(after.trim_start_matches([' ', '\t']));
        let name = file.word();
        // `>&2` and `>&-` belong to sh, and so does a redirection without `&` or `!`.
        let is_number = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
        if name.is_empty() || !(is_both || is_forced) || (arrow == ">" && !is_forced && (is_number || name == "-")) {
            // Takes the whole operator, so that its second character is not parsed again.
            return None.or_else(|| (arrow == ">>").then(|| self.take_bytes(2).to_owned()));
        }
        self.0 = file.0;
        let both = if is_both { " 2>&1" } else { "" };
        Some(format!("{arrow} {name}{both}"))
    }

    fn word(&mut self) -> String {
        let mut word = String::new();
        while self.0.chars().next().is_some_and(|letter| !letter.is_whitespace() && !";|&<>()".contains(letter)) {
            word.push_str(self.part());
        }
        word
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn only_csh_redirections_are_translated() {
        for (csh, sh) in [
            ("/bin/ls -lt >& /tmp/foo", "/bin/ls -lt > /tmp/foo 2>&1"),
            ("a >&\"the file\" b; c >>& x", "a > \"the file\" 2>&1 b; c >> x 2>&1"),
            ("a >&! x && b >>&! y", "a > x 2>&1 && b >> y 2>&1"),
            ("a >! x; b >>! y", "a > x; b >> y"),
            ("a |& tee x", "a 2>&1 | tee x"),
            ("a >& $HOME/x.$$ &", "a > $HOME/x.$$ 2>&1 &"),
        ] {
            assert_eq!(for_sh(csh), sh);
        }
        for same in [
            "a > x 2>&1",
            "a 1>&2",
            "a >&2; b >&-",
            "a >> x",
            "echo 'a >& b' \"c |& d\" e\\>\\& f",
            "echo \"it \\\" >& x\"",
            "a || b & c",
            "a >",
            "echo 'never ends >& x",
            "",
            "é >é",
        ] {
            assert_eq!(for_sh(same), same);
        }
    }

    #[test]
    fn both_outputs_come_into_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let run = |command: &str| {
            Command::new("sh").args(["-c", &for_sh(command)]).current_dir(folder.path()).status().unwrap()
        };
        assert!(run("(echo out; echo err 1>&2) >& both").success());
        assert!(run("(echo more; echo err 1>&2) >>& both").success());
        assert!(run("(echo piped; echo err 1>&2) |& sort > sorted").success());
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!((read("both").as_str(), read("sorted").as_str()), ("out\nerr\nmore\nerr\n", "err\npiped\n"));
    }
}
