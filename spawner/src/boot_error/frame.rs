//! The place in the application's own code that an error points to.
//!
//! Python prints the innermost frame last, Ruby and JavaScript print it first. Frames of libraries are skipped: those
//! outside the application's directory, and those in the directories in which package managers install.

use std::fmt;
use std::path::{Component, Path, PathBuf};

/// Directories within an application that hold the code of others.
const VENDORED: [&str; 8] = [
    "node_modules",
    "site-packages",
    "dist-packages",
    "vendor",
    "gems",
    ".bundle",
    ".venv",
    "venv",
];
/// The extensions of files that Ruby names relative to the application's directory.
const SOURCES: [&str; 8] = ["rb", "ru", "rake", "py", "js", "mjs", "cjs", "ts"];

/// A line of the application's own code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The file, relative to the application's directory.
    pub file: PathBuf,
    /// The number of the line, from 1.
    pub line: u32,
}

/// Writes `FILE:LINE`.
impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

impl Frame {
    /// Returns the innermost frame of the application's own code in a traceback, backtrace or stack.
    ///
    /// `roots` are the names of the application's directory.
    pub(crate) fn innermost(text: &str, roots: &[&Path]) -> Option<Frame> {
        let own = |(path, line): (&str, u32)| {
            Some(Frame { file: own_file(Path::new(path), roots)?, line })
        };
        let python = text.lines().rev().filter_map(python_frame).find_map(own);
        let ruby = || text.lines().filter_map(ruby_syntax).find_map(own);
        python.or_else(ruby).or_else(|| text.lines().filter_map(other_frame).find_map(own))
    }
}

/// Returns the path relative to the application's directory, if the file is the application's own.
fn own_file(path: &Path, roots: &[&Path]) -> Option<PathBuf> {
    let own = if path.is_absolute() {
        roots.iter().find_map(|root| path.strip_prefix(root).ok())?
    } else {
        let extension = path.extension()?.to_str()?;
        SOURCES.contains(&extension).then_some(path)?
    };
    let own: PathBuf = own.components().filter(|c| *c != Component::CurDir).collect();
    let is_own = |c: Component<'_>| match c {
        Component::Normal(name) => !VENDORED.iter().any(|vendored| name == *vendored),
        _ => false,
    };
    (own.file_name().is_some() && own.components().all(is_own)).then_some(own)
}

/// Parses `File "PATH", line LINE`, with or without a function behind it.
fn python_frame(line: &str) -> Option<(&str, u32)> {
    let (path, rest) = line.trim_start().strip_prefix("File \"")?.split_once("\", line ")?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    Some((path, rest[..digits].parse().ok()?))
}

/// Parses the place of a Ruby error of syntax, behind the frame that loads the file: `FRAME:in 'eval': PATH:LINE: syntax error`.
fn ruby_syntax(line: &str) -> Option<(&str, u32)> {
    let (place, _) = line.split_once(": syntax error")?;
    let place = place.rsplit_once("': ").map_or(place, |(_, place)| place);
    let (path, number) = place.rsplit_once(':')?;
    Some((path, number.parse().ok()?))
}

/// Parses a frame of Ruby (`PATH:LINE:in …`) or JavaScript (`at … (PATH:LINE:COLUMN)`, `at PATH:LINE:COLUMN`).
///
/// Also parses the head `PATH:LINE`, by which both name the place of an error of syntax.
fn other_frame(line: &str) -> Option<(&str, u32)> {
    let mut frame = line.trim();
    if let Some(javascript) = frame.strip_prefix("at ") {
        frame = match javascript.rsplit_once(" (") {
            Some((_, place)) => place.strip_suffix(')')?,
            None => javascript.strip_prefix("async ").unwrap_or(javascript),
        };
    }
    frame = frame.strip_prefix("from ").unwrap_or(frame);
    frame = frame.strip_prefix("file://").unwrap_or(frame);
    frame.match_indices(':').find_map(|(colon, _)| {
        let rest = &frame[colon + 1..];
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let ends = rest[digits..].is_empty() || rest[digits..].starts_with(':');
        let number = rest[..digits].parse().ok()?;
        ends.then_some((&frame[..colon], number))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn place(text: &str) -> Option<String> {
        let roots = [Path::new("/srv/my app"), Path::new("/data/releases/7")];
        Frame::innermost(text, &roots).map(|frame| frame.to_string())
    }

    #[test]
    fn python_names_the_innermost_frame_last() {
        let text = "Traceback (most recent call last):\n  File \"/srv/my app/wsgi.py\", line 3, in <module>\n    import shop\n  \
                    File \"/srv/my app/shop/__init__.py\", line 12, in <module>\n    connect()\n  File \
                    \"/srv/my app/.venv/lib/python3/site-packages/db.py\", line 9, in connect\n  File \"/usr/lib/python3/socket.py\", \
                    line 8, in x\nOSError: no\n";
        assert_eq!(place(text).as_deref(), Some("shop/__init__.py:12"));
        let syntax = "  File \"/data/releases/7/wsgi.py\", line 5\n    def (\n        ^\nSyntaxError: invalid syntax\n";
        assert_eq!(place(syntax).as_deref(), Some("wsgi.py:5"));
    }

    #[test]
    fn ruby_and_javascript_name_it_first() {
        let ruby = "/usr/lib/ruby/kernel.rb:85:in `require': cannot load such file -- x (LoadError)\n\tfrom \
                    /srv/my app/vendor/bundle/a.rb:1:in `a'\n\tfrom /srv/my app/lib/shop.rb:4:in `<main>'\n\tfrom config.ru:1:in `x'\n";
        assert_eq!(place(ruby).as_deref(), Some("lib/shop.rb:4"));
        assert_eq!(
            place("config.ru:3: syntax error, unexpected end").as_deref(),
            Some("config.ru:3")
        );
        let loaded = "/gems/rack/builder.rb:116:in `eval': /srv/my app/config.ru:2: syntax error, unexpected '}' (SyntaxError)\n\
                      \tfrom /gems/rack/builder.rb:105:in `load_file'\n";
        assert_eq!(place(loaded).as_deref(), Some("config.ru:2"));
        let required = "/srv/my app/config.ru:1:in 'require_relative': /srv/my app/lib/a.rb:3: syntax errors found (SyntaxError)\n\
                        \tfrom /srv/my app/config.ru:1:in 'x'\n";
        assert_eq!(place(required).as_deref(), Some("lib/a.rb:3"));
        let node = "Error: Cannot find module 'x'\n    at Module._load (node:internal/loader:1:2)\n    at Object.<anonymous> \
                    (/srv/my app/node_modules/y/i.js:3:4)\n    at f (/srv/my app/lib/db.js:7:15)\n    at /srv/my app/app.js:1:1\n";
        assert_eq!(place(node).as_deref(), Some("lib/db.js:7"));
        let module = "file:///data/releases/7/app.mjs:2\nimport x from\n\nSyntaxError: Unexpected end of input\n";
        assert_eq!(place(module).as_deref(), Some("app.mjs:2"));
    }

    #[test]
    fn other_lines_and_foreign_files_are_no_frames() {
        for text in [
            "",
            "Error: connect ECONNREFUSED 127.0.0.1:5432",
            "  File \"/srv/my app/../secret.py\", line 3, in x",
            "  File \"<string>\", line 1, in <module>",
            "    at /srv/my app/node_modules/x.js:1:1",
            "/srv/another/app.rb:1:in `x'",
            "at (",
            "é:1é: x:2",
            "12:34:56 info: started",
            "  File \"/srv/my app/a.py\", line 99999999999",
        ] {
            assert_eq!(place(text), None, "{text}");
        }
    }
}
