//! The words of a command that any shell reads in the same way.
//!
//! A shell does more with a text than to split it. A command that needs more is refused, and not guessed at.

/// Characters that a shell gives a meaning, where no quotes are around them.
const FOR_A_SHELL: &str = "$`\\;&|<>(){}[]*?~\n\r";

/// One word of a command, without its quotes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: String,
    /// The length of its beginning that has no quotes.
    plain: usize,
}

impl Word {
    /// Returns the name and the value, if a shell takes the word for an assignment.
    pub(super) fn assignment(&self) -> Option<(&str, &str)> {
        let (name, value) = self.text.split_once('=')?;
        let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let is_name = begins && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        (is_name && name.len() < self.plain).then_some((name, value))
    }
}

/// Splits a command into its words.
///
/// # Errors
/// A part of the command that only a shell can carry out.
pub(super) fn split(text: &str) -> Result<Vec<Word>, String> {
    let mut words = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(&first) = rest.peek() {
        if first == ' ' || first == '\t' {
            rest.next();
            continue;
        }
        if first == '#' {
            return Err("#".into());
        }
        let mut word = Word::default();
        let mut is_plain = true;
        while let Some(c) = rest.next_if(|&c| c != ' ' && c != '\t') {
            match c {
                '\'' | '"' => {
                    is_plain = false;
                    quoted(c, &mut rest, &mut word.text)?;
                }
                _ if FOR_A_SHELL.contains(c) || c.is_control() => {
                    // `&&` reads better than `&`.
                    let again = rest.next_if_eq(&c).map(String::from).unwrap_or_default();
                    return Err(format!("{c}{again}").escape_debug().to_string());
                }
                _ => word.text.push(c),
            }
            if is_plain {
                word.plain = word.text.len();
            }
        }
        words.push(word);
    }
    Ok(words)
}

/// Reads up to the closing quote.
fn quoted(
    quote: char,
    rest: &mut impl Iterator<Item = char>,
    text: &mut String,
) -> Result<(), String> {
    for c in rest {
        match c {
            _ if c == quote => return Ok(()),
            '$' | '`' | '\\' if quote == '"' => return Err(c.into()),
            _ if c.is_control() => return Err(c.escape_debug().to_string()),
            _ => text.push(c),
        }
    }
    Err(quote.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Result<Vec<String>, String> {
        split(text).map(|words| words.into_iter().map(|word| word.text).collect())
    }

    #[test]
    fn words_are_split_as_a_shell_splits_them() {
        for text in [
            "  node\ta.js  --b=c ",
            r#"A='b "c" $d' node "x y"/'z'"#,
            "'' a#b \"it's\"",
            "a=b%c,d:e+f@g!h^i",
            "",
        ] {
            let script = format!("for word in {text}; do echo \"$word\"; done");
            let shell = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
            let by_shell: Vec<_> =
                String::from_utf8(shell.stdout).unwrap().lines().map(str::to_owned).collect();
            assert_eq!(words(text).unwrap(), by_shell, "{text}");
        }
    }

    #[test]
    fn a_command_for_a_shell_is_refused_by_the_part_that_needs_one() {
        for (text, part) in [
            ("a && b", "&&"),
            ("a || b", "||"),
            ("a; b", ";"),
            ("a --port $PORT", "$"),
            ("a \"$PORT\"", "$"),
            ("a `b`", "`"),
            ("a > log", ">"),
            ("a *.js", "*"),
            ("a ~/b", "~"),
            ("a # b", "#"),
            ("a 'b", "'"),
            ("a\nb", "\\n"),
            ("a 'b\u{1b}'", "\\u{1b}"),
            ("a \\ b", "\\\\"),
            ("{ a; }", "{"),
        ] {
            assert_eq!(words(text), Err(part.to_owned()), "{text}");
        }
    }

    #[test]
    fn quotes_around_a_name_are_no_assignment() {
        let assignments = |text: &str| -> Vec<Option<(String, String)>> {
            let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
            split(text).unwrap().iter().map(|word| word.assignment().map(own)).collect()
        };
        let pair = |name: &str, value: &str| Some((name.to_owned(), value.to_owned()));
        let text = "A=b _C1='d e' F= 'G=h' I'='j 1K=l m-n=o =p q G=h=i";
        let expected = [
            pair("A", "b"),
            pair("_C1", "d e"),
            pair("F", ""),
            None,
            None,
            None,
            None,
            None,
            None,
            pair("G", "h=i"),
        ];
        assert_eq!(assignments(text), expected);
    }
}
