//! The tokens of Rust code: names and numbers, texts, `::`, and single signs. Comments are left out.

use regex::Regex;

/// Lists the tokens, with each text as one token.
pub(crate) fn of(source: &str) -> Vec<String> {
    let token = r##"//[^\n]*|(?s:/\*.*?\*/)|r#"(?s:.*?)"#|b?"(?s:\\.|[^"\\])*"|'(?:\\[^']*|[^'\\])'|\w+|::|\S"##;
    let token = Regex::new(token).expect("a valid pattern");
    let all = token.find_iter(source).map(|found| found.as_str());
    all.filter(|token| !token.starts_with("//") && !token.starts_with("/*"))
        .map(str::to_owned)
        .collect()
}

/// The same without texts.
pub(crate) fn of_code(source: &str) -> Vec<String> {
    let is_text = |token: &String| token.ends_with(['"', '\'', '#']) && token.len() > 1;
    of(source).into_iter().filter(|token| !is_text(token)).collect()
}
