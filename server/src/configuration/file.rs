//! `cabrank.toml`: the options of `start`, written with underscores, and definitions of types. Errors name file, line,
//! key and remedy.

use crate::configuration::section::{Section, in_line};
use crate::configuration::values::OptionValue;
use crate::configuration::{custom_types, peers, syntax};
use crate::failure::Failure;
use cabrank_spawner::app_type::{CustomType, read_text};
use std::io;
use std::path::{Path, PathBuf};
use toml::de::DeTable;

/// The file's name in the application's directory.
pub(crate) const NAME: &str = "cabrank.toml";

/// Reads the file at `path`. Returns no text if it does not exist.
///
/// # Errors
/// The file cannot be read.
fn read(path: &Path) -> Result<String, Failure> {
    match read_text(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(e) => Err(Failure::usage(format!(
            "cannot read {}: {e}. Make it a readable text file, or remove it.",
            path.display()
        ))),
        Ok(text) => Ok(text),
    }
}

/// The file that a configuration was read from, with its text at that time.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    text: String,
}

impl Source {
    /// Reads the file of an application in `root`.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn read(root: &Path) -> Result<Source, Failure> {
        let path = root.join(NAME);
        Ok(Source { text: read(&path)?, path })
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether the file has another text now, or cannot be read.
    pub(crate) fn has_changed(&self) -> bool {
        read(&self.path).map_or(true, |text| text != self.text)
    }
}

/// The options and definitions in the text of a file, which are taken one by one.
///
/// Errors begin with the number of a line, so that they can follow the file's name.
#[derive(Debug)]
pub(crate) struct FileOptions<'t> {
    path: String,
    options: Section<'t>,
    custom_types: Option<Section<'t>>,
}

impl<'t> FileOptions<'t> {
    /// Parses the text of the file at `path`, whose keys are those of `known`.
    ///
    /// # Errors
    /// The text is not TOML, or a key or section is unknown.
    pub(crate) fn parse(path: &Path, text: &'t str, known: &[&str]) -> Result<Self, String> {
        let entries = DeTable::parse(text).map_err(|e| {
            let start = e.span().map_or(0, |span| span.start);
            syntax::problem(text, start)
        })?;
        let mut options = Section::new(text, None, entries.into_inner());
        let custom_types = options.take_section(custom_types::NAME)?;
        options.has_no_sections(known)?;
        if let Some((key, place)) = options.first_besides(known) {
            return Err(in_line(text, place.start, &unknown_key(&key, known)));
        }
        Ok(FileOptions { path: path.display().to_string(), options, custom_types })
    }

    /// Takes the value of an option.
    ///
    /// # Errors
    /// The value is bad.
    pub(crate) fn take<T: OptionValue>(&mut self, name: &str) -> Result<Option<T>, String> {
        self.options.take(name)
    }

    /// Takes the types that the file defines, for applications in `root`.
    ///
    /// # Errors
    /// A definition is bad. The file has no options but those of `known`.
    pub(crate) fn take_custom_types(
        &mut self,
        root: &Path,
        known: &[&str],
    ) -> Result<Vec<CustomType>, String> {
        let definitions = self.custom_types.take();
        definitions.map_or(Ok(Vec::new()), |section| custom_types::read(section, root, known))
    }

    /// Returns the file's path.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }
}

fn unknown_key(key: &str, known: &[&str]) -> String {
    if let Some(answer) = peers::answer_for_key(key, known) {
        return format!("unknown key {key}: {answer}. (`cabrank start --help` lists all options.)");
    }
    let nearest = known.iter().min_by_key(|k| distance(k, key));
    match nearest {
        Some(k) if distance(k, key) <= key.len() / 3 => {
            format!(
                "unknown key {key}. Did you mean {k}? (`cabrank start --help` lists all options.)"
            )
        }
        _ => format!("unknown key {key}. Remove it, or use one of the keys: {}.", known.join(", ")),
    }
}

/// Returns the Levenshtein distance of two keys.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let substituted = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::values::{AtLeastOne, LogFormat, Seconds, Whole};
    use std::time::Duration;

    const KNOWN: &[&str] =
        &["max_pool_size", "pool_idle_time", "log_format", "port", "env_file", "start_command"];

    fn parsed(text: &str) -> Result<FileOptions<'_>, String> {
        FileOptions::parse("cabrank.toml".as_ref(), text, KNOWN)
    }

    #[test]
    fn an_option_is_taken_by_its_name() {
        let text = "max_pool_size = 3\npool_idle_time = 0.5\nlog_format = \"json\"\n";
        let mut options = parsed(text).unwrap();
        assert_eq!(options.take::<AtLeastOne>("max_pool_size"), Ok(Some(Whole(3))));
        assert_eq!(options.take::<AtLeastOne>("max_pool_size"), Ok(None));
        let half = Seconds(Duration::from_millis(500));
        assert_eq!(options.take("pool_idle_time"), Ok(Some(half)));
        assert_eq!(options.take("log_format"), Ok(Some(LogFormat::Json)));
        assert_eq!(options.take::<String>("port"), Ok(None));
    }

    #[test]
    fn the_error_for_an_unknown_key_names_its_line_and_a_suggestion() {
        let e = parsed("# ours\nmax_pool_sice = 3\n").unwrap_err();
        assert!(e.starts_with("2: unknown key max_pool_sice. Did you mean max_pool_size?"), "{e}");
        let e = parsed("completely_different = 3\n").unwrap_err();
        assert!(e.contains("one of the keys: max_pool_size, pool_idle_time"), "{e}");
        assert!(!parsed("dir = 3\n").unwrap_err().contains("Did you mean"));
        let e = parsed("zzz = 1\naaa = 1\n").unwrap_err();
        assert!(e.starts_with("1: unknown key zzz"), "{e}");
    }

    #[test]
    fn a_section_that_defines_no_type_is_unknown() {
        for (text, error) in [
            ("port = 1\n[pool]\nx = 1", "2: unknown section [pool]."),
            ("[port]\nx = 1", "1: unknown section [port]."),
            ("[[pool]]\n", "1: unknown section [[pool]]."),
            ("[pool.a] # ours\n", "1: unknown section [pool.a]."),
            ("pool.x = 1", "1: unknown key pool."),
            (
                "[env]\nA = 1",
                "1: unknown section [env]: use env_file = \"FILE\", or set the variable",
            ),
            ("[envvars]", "1: unknown section [envvars]: use env_file = \"FILE\""),
            (
                "app_start_command = 'x'",
                "1: unknown key app_start_command: use start_command = \"COMMAND\"",
            ),
        ] {
            let e = parsed(text).unwrap_err();
            assert!(e.starts_with(error), "{e}");
        }
    }
}
