//! Measures the prose of the tree, and lists references that lead nowhere.
//!
//! For each top folder it prints three rates per 1,000 words of Rust docs and comments:
//! - sentences that begin with a relative pronoun instead of a subject (headless);
//! - three words that turn a sentence round;
//! - sentences of doc comments above 25 words.
//!
//! The first two have goals. `src/execution` has a row of its own, beside its share in `src`.
//!
//! A reference dangles if it cites an erratum, invariant or property that is not defined (`spec/src`). So does
//! a numbered rule, or a file that the tree does not have.

use crate::common::{Outcome, say, tracked_files};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// Whether a rate above its goal, or a dangling reference, fails CI. `cargo xtask prose` fails in any case.
pub(crate) const FAILS_CI: bool = true;

const MOST_HEADLESS: f64 = 0.5;
const MOST_NEGATIVE: f64 = 2.0;
const LONGEST_SENTENCE: usize = 25;
/// Rates of a folder with fewer words say little, and have no goal.
const FEWEST_WORDS: usize = 2000;
const OWN_ROWS: [&str; 1] = ["src/execution"];

/// Prints the table and the dangling references. With `list`, also each sentence that counts, of files whose
/// path contains one of `only`.
pub(crate) fn run(args: &[String]) -> Outcome {
    let list = args.iter().any(|arg| arg == "--list");
    let only: Vec<&String> = args.iter().filter(|arg| *arg != "--list").collect();
    let wanted = |path: &str| only.is_empty() || only.iter().any(|part| path.contains(*part));
    let files = tracked_files("")?;
    if let Some(part) = only.iter().find(|part| !files.iter().any(|file| file.contains(**part))) {
        return Err(format!("no file has {part} in its path"));
    }
    let patterns = Patterns::new();
    let mut rows: BTreeMap<String, Rates> = BTreeMap::new();
    for path in tracked_files(".rs")? {
        let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let rates = patterns.measure(&text, |line, kind, sentence| {
            if list && wanted(&path) {
                say(&format!("{path}:{line}: {kind}: {sentence}"));
            }
        });
        let top = path.split('/').next().unwrap_or(&path).to_owned();
        rows.entry(top).or_default().add(rates);
        for row in OWN_ROWS.iter().filter(|row| path.starts_with(**row)) {
            rows.entry((*row).to_owned()).or_default().add(rates);
        }
    }
    say(&format!(
        "{:<16} {:>7} {:>9} {:>21} {:>19}",
        "folder", "words", "headless", "nobody/nothing/none", "long doc sentences"
    ));
    let mut above = Vec::new();
    for (folder, rates) in &rows {
        let [headless, negative, long] = rates.per_1000();
        say(&format!(
            "{folder:<16} {:>7} {headless:>9.1} {negative:>21.1} {long:>19.1}",
            rates.words
        ));
        let is_above = headless > MOST_HEADLESS || negative > MOST_NEGATIVE;
        if rates.words >= FEWEST_WORDS && is_above {
            above.push(folder.as_str());
        }
    }
    say(&format!("{:<16} {:>7} {MOST_HEADLESS:>9.1} {MOST_NEGATIVE:>21.1}", "goal: at most", ""));
    let dangling = dangling_references(&wanted)?;
    for reference in &dangling {
        say(reference);
    }
    match (above.is_empty(), dangling.len()) {
        (true, 0) => Ok(()),
        (_, count) => {
            Err(format!("above the goal: {}; dangling references: {count}", above.join(", ")))
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Rates {
    words: usize,
    headless: usize,
    negative: usize,
    long: usize,
}

impl Rates {
    fn add(&mut self, other: Rates) {
        self.words += other.words;
        self.headless += other.headless;
        self.negative += other.negative;
        self.long += other.long;
    }
    fn per_1000(self) -> [f64; 3] {
        [self.headless, self.negative, self.long]
            .map(|count| 1000.0 * count as f64 / self.words.max(1) as f64)
    }
}

struct Patterns {
    comment: Regex,
    code: Regex,
    headless: Regex,
    negative: Regex,
}

impl Patterns {
    fn new() -> Self {
        Patterns {
            comment: regex(r"^\s*(//[/!]?)\s?(.*)$"),
            code: regex(r"`[^`]*`"),
            headless: regex(
                r"^(Who|Whoever|Whom|Whose|What|Whatever|That of|Those that|Those who|That which|That what)\b",
            ),
            negative: regex(r"(?i)\b(nobody|nothing|none)\b"),
        }
    }

    /// Counts, and reports each sentence that counts with its line and what is wrong with it.
    fn measure(&self, source: &str, mut report: impl FnMut(usize, &str, &str)) -> Rates {
        let mut rates = Rates::default();
        let comments = self.comments(source);
        for paragraph in paragraphs(comments.iter().map(|line| (line.number, line.text.as_str()))) {
            let text = self.code.replace_all(&paragraph.text, "X");
            for sentence in sentences(&text, ".:;!") {
                rates.words += sentence.split_whitespace().count();
                if self.headless.is_match(sentence) && !sentence.ends_with('?') {
                    rates.headless += 1;
                    report(paragraph.line, "headless", sentence);
                }
                if self.negative.is_match(sentence) {
                    report(paragraph.line, "nobody/nothing/none", sentence);
                }
            }
            rates.negative += self.negative.find_iter(&text).count();
        }
        let docs = comments
            .iter()
            .map(|line| (line.number, if line.is_doc { line.text.as_str() } else { "" }));
        for paragraph in paragraphs(split_lists(docs)) {
            let text = self.code.replace_all(&paragraph.text, "X");
            for sentence in sentences(&text, ".!?") {
                if sentence.split_whitespace().count() > LONGEST_SENTENCE {
                    rates.long += 1;
                    report(paragraph.line, "long", sentence);
                }
            }
        }
        rates
    }

    /// One entry a line of the source: the text of a comment, or an empty text for code and for examples.
    fn comments(&self, source: &str) -> Vec<Line> {
        let mut in_example = false;
        let mut lines = Vec::new();
        for (index, line) in source.lines().enumerate() {
            let found = self.comment.captures(line);
            let is_doc = found.as_ref().is_some_and(|found| found[1].len() == 3);
            let mut text = found.map(|found| found[2].to_owned()).unwrap_or_default();
            if text.starts_with("```") {
                in_example = !in_example;
                text.clear();
            } else if in_example {
                text.clear();
            }
            lines.push(Line { number: index + 1, is_doc, text });
        }
        lines
    }
}

struct Line {
    number: usize,
    is_doc: bool,
    text: String,
}

struct Paragraph {
    line: usize,
    text: String,
}

/// Joins the lines between empty ones.
fn paragraphs<'a>(lines: impl Iterator<Item = (usize, &'a str)>) -> Vec<Paragraph> {
    let mut paragraphs: Vec<Paragraph> = Vec::new();
    let mut is_open = false;
    for (line, text) in lines {
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.is_empty() {
            is_open = false;
        } else if let Some(last) = paragraphs.last_mut().filter(|_| is_open) {
            last.text = format!("{} {}", last.text, words.join(" "));
        } else {
            paragraphs.push(Paragraph { line, text: words.join(" ") });
            is_open = true;
        }
    }
    paragraphs
}

/// Puts an empty line before each list item, heading and table row.
fn split_lists<'a>(
    lines: impl Iterator<Item = (usize, &'a str)>,
) -> impl Iterator<Item = (usize, &'a str)> {
    let start = regex(r"^\s*([-*#|]|\d+\.)");
    lines.flat_map(move |(number, text)| {
        let gap = start.is_match(text).then_some((number, ""));
        gap.into_iter().chain([(number, text)])
    })
}

/// Splits after each of `ends` that a space follows.
fn sentences<'a>(text: &'a str, ends: &'a str) -> impl Iterator<Item = &'a str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end =
            rest.match_indices(' ').find(|(at, _)| rest[..*at].ends_with(|c| ends.contains(c)));
        let (sentence, after) = end.map_or((rest, ""), |(at, _)| (&rest[..at], &rest[at + 1..]));
        rest = after;
        Some(sentence)
    })
}

/// Lists the citations in comments, docs and Markdown that lead nowhere.
fn dangling_references(wanted: &impl Fn(&str) -> bool) -> Result<Vec<String>, String> {
    let defined = names_defined_by_the_spec()?;
    let files: Vec<String> = tracked_files("")?;
    // `E0502` is an error of the compiler.
    let name = regex(r"\b(E\d{1,3}|INV(-[A-Z]+)+|PROP(-[A-Z]+)+)\b");
    let private = regex(r"\b(RP-D\d+|RPL?\d+|[ADFLOQRSD]\d+|(rule|ruling|rulings|seed) \d+)\b");
    let path = regex(r"`([\w./-]+\.rs|[a-z.-][\w.-]*/[\w./-]+\.(?:md|toml|py))`");
    let link = regex(r"\]\(([^)#:]+)(?:#[^)]*)?\)");
    let comment = regex(r"^\s*//[/!]?(.*)$");
    let mut dangling = Vec::new();
    for file in
        files.iter().filter(|file| wanted(file) && (file.ends_with(".rs") || file.ends_with(".md")))
    {
        let source = fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
        for (index, line) in source.lines().enumerate() {
            let is_markdown = file.ends_with(".md");
            let text = if is_markdown {
                line
            } else if let Some(found) = comment.captures(line) {
                found.get(1).map_or("", |text| text.as_str())
            } else {
                continue;
            };
            let mut report = |what: &str, why: &str| {
                dangling.push(format!("{file}:{}: {what} {why}", index + 1))
            };
            // `INV-RP-…` cites a family.
            let is_defined = |name: &str| {
                defined.iter().any(|known| known == name || known.starts_with(&format!("{name}-")))
            };
            for found in name.find_iter(text).filter(|found| !is_defined(found.as_str())) {
                report(found.as_str(), "is not defined in spec/");
            }
            for found in private.find_iter(text) {
                report(found.as_str(), "is a private number");
            }
            let links = link.captures_iter(text).filter(|_| is_markdown);
            for found in
                path.captures_iter(text).chain(links).filter(|found| !is_there(&found[1], &files))
            {
                report(&found[1], "does not exist");
            }
        }
    }
    Ok(dangling)
}

/// Errata, invariants and properties: as `spec/src`, and the tables of invariants in `src`, name them in code.
fn names_defined_by_the_spec() -> Result<BTreeSet<String>, String> {
    let name = regex(r"\b(E\d+|INV(-[A-Z]+)+|PROP(-[A-Z]+)+)\b");
    let comment = regex(r"(?m)//.*$");
    let mut names = BTreeSet::new();
    for file in tracked_files(".rs")? {
        let defines = file.starts_with("spec/src")
            || file.starts_with("src/") && file.ends_with("/invariants.rs");
        if !defines {
            continue;
        }
        let source = fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?;
        let source = comment.replace_all(&source, "");
        names.extend(name.find_iter(&source).map(|found| found.as_str().to_owned()));
    }
    Ok(names)
}

/// Whether a cited path names a file or folder of the tree: from the root, or by the last parts of its path.
fn is_there(cited: &str, files: &[String]) -> bool {
    let cited = cited.trim_start_matches("../").trim_start_matches("./").trim_end_matches('/');
    let as_folder = format!("{cited}/");
    files.iter().any(|file| {
        file.strip_suffix(cited).is_some_and(|before| before.is_empty() || before.ends_with('/'))
            || file.starts_with(&as_folder)
            || file.contains(&format!("/{as_folder}"))
    })
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a pattern of this file is valid")
}
