//! The command `node FILE`, with all that may stand around the file.
//!
//! A script `start` is a text for a shell. The loader takes the place of the file, so that only a command of this form can be
//! started as it is written: assignments of variables, `node`, options of Node, a file, arguments for the application.

use super::shell_words::split;
use std::iter::Peekable;

/// Options of Node whose value is the next word, unless it stands behind `=`.
const WITH_VALUE: [&str; 55] = [
    "--allow-fs-read",
    "--allow-fs-write",
    "--conditions",
    "--cpu-prof-dir",
    "--cpu-prof-interval",
    "--cpu-prof-name",
    "--debug-port",
    "--diagnostic-dir",
    "--disable-proto",
    "--disable-warning",
    "--dns-result-order",
    "--env-file",
    "--env-file-if-exists",
    "--es-module-specifier-resolution",
    "--experimental-config-file",
    "--experimental-default-type",
    "--experimental-loader",
    "--experimental-policy",
    "--experimental-specifier-resolution",
    "--heap-prof-dir",
    "--heap-prof-interval",
    "--heap-prof-name",
    "--heapsnapshot-near-heap-limit",
    "--heapsnapshot-signal",
    "--icu-data-dir",
    "--import",
    "--input-type",
    "--inspect-port",
    "--inspect-publish-uid",
    "--loader",
    "--localstorage-file",
    "--max-http-header-size",
    "--network-family-autoselection-attempt-timeout",
    "--openssl-config",
    "--policy-integrity",
    "--redirect-warnings",
    "--report-dir",
    "--report-directory",
    "--report-filename",
    "--report-signal",
    "--require",
    "--secure-heap",
    "--secure-heap-min",
    "--security-revert",
    "--snapshot-blob",
    "--title",
    "--tls-cipher-list",
    "--tls-keylog",
    "--trace-event-categories",
    "--trace-event-file-pattern",
    "--unhandled-rejections",
    "--use-largepages",
    "--v8-pool-size",
    "-C",
    "-r",
];

/// Options with which Node does not run the file in this process.
const WITHOUT_FILE: [&str; 22] = [
    "--build-snapshot",
    "--build-snapshot-config",
    "--check",
    "--eval",
    "--experimental-sea-config",
    "--help",
    "--interactive",
    "--print",
    "--prof-process",
    "--run",
    "--test",
    "--v8-options",
    "--version",
    "--watch",
    "--watch-path",
    "-c",
    "-e",
    "-h",
    "-i",
    "-p",
    "-pe",
    "-v",
];

/// A script `start` that runs a file by Node, in a `package.json`. The loader takes the place of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartScript {
    /// The script as it is written.
    pub text: String,
    /// The variables that it sets: names and values.
    pub variables: Vec<(String, String)>,
    /// The options of Node.
    pub options: Vec<String>,
    /// The arguments of the application.
    pub arguments: Vec<String>,
}

impl StartScript {
    /// Returns whether it says more than the name of a file.
    pub(super) fn says_more(&self) -> bool {
        !(self.variables.is_empty() && self.options.is_empty() && self.arguments.is_empty())
    }
}

/// The error of a command that names no file.
pub(super) const NO_FILE: &str = "no file";

/// A command that runs a file by Node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeCommand {
    /// The variables that its beginning sets: names and values.
    pub(super) variables: Vec<(String, String)>,
    /// The options of Node.
    pub(super) options: Vec<String>,
    /// The file, as it is written.
    pub(super) file: String,
    /// The words behind the file.
    pub(super) arguments: Vec<String>,
}

impl NodeCommand {
    /// Reads the text of a command.
    ///
    /// # Errors
    /// The part that is not understood.
    pub(super) fn parse(text: &str) -> Result<NodeCommand, String> {
        let words = split(text)?;
        let mut words = words.into_iter().peekable();
        let mut command = NodeCommand::default();
        while let Some(word) = words.next_if(|word| word.assignment().is_some()) {
            let pair = word.assignment().map(|(name, value)| (name.to_owned(), value.to_owned()));
            command.variables.extend(pair);
        }
        let mut words = words.map(|word| word.text).peekable();
        match words.next() {
            Some(program) if program == "node" || program == "nodejs" => {}
            Some(program) => return Err(program),
            None => return Err(text.trim().into()),
        }
        command.take_options(&mut words)?;
        // A `-` is the standard input.
        command.file =
            words.next().filter(|file| !file.is_empty() && file != "-").ok_or(NO_FILE)?;
        command.arguments = words.collect();
        Ok(command)
    }

    /// Takes the options of Node, up to the file.
    fn take_options(
        &mut self,
        words: &mut Peekable<impl Iterator<Item = String>>,
    ) -> Result<(), String> {
        while let Some(option) = words.next_if(|word| word.starts_with('-') && word != "-") {
            if option == "--" {
                break;
            }
            let name = option.split_once('=').map_or(&*option, |(name, _)| name);
            // Node takes `_` for `-`.
            let name = match name.strip_prefix("--") {
                Some(name) => format!("--{}", name.replace('_', "-")),
                None => name.to_owned(),
            };
            if WITHOUT_FILE.contains(&&*name) {
                return Err(option);
            }
            let takes_next = WITH_VALUE.contains(&&*name) && !option.contains('=');
            self.options.push(option);
            if takes_next {
                self.options.extend(words.next());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the parts, with `,` between their words.
    fn parts(text: &str) -> [String; 4] {
        let command = NodeCommand::parse(text).unwrap();
        let variables: Vec<_> =
            command.variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
        [variables.join(","), command.options.join(","), command.file, command.arguments.join(",")]
    }

    #[test]
    fn all_that_stands_around_the_file_is_understood() {
        for (text, expected) in [
            ("node app.js", ["", "", "app.js", ""]),
            ("nodejs .", ["", "", ".", ""]),
            ("node --env-file=.env dist/index.js", ["", "--env-file=.env", "dist/index.js", ""]),
            ("NODE_ENV=production A='b c' node x", ["NODE_ENV=production,A=b c", "", "x", ""]),
            (
                "node -r dotenv/config --import ./otel.mjs --trace-warnings x --port 1 -v",
                ["", "-r,dotenv/config,--import,./otel.mjs,--trace-warnings", "x", "--port,1,-v"],
            ),
            (
                "node --max_old_space_size=512 --env_file .env -- x -- y",
                ["", "--max_old_space_size=512,--env_file,.env", "x", "--,y"],
            ),
        ] {
            assert_eq!(parts(text), expected, "{text}");
        }
    }

    #[test]
    fn another_command_is_refused_by_the_part_that_is_not_understood() {
        for (text, part) in [
            ("npx ts-node x.ts", "npx"),
            ("cross-env A=b node x.js", "cross-env"),
            ("A=b next start", "next"),
            ("/usr/bin/node x.js", "/usr/bin/node"),
            ("node build.js && node x.js", "&&"),
            ("node x.js --port $PORT", "$"),
            ("node --watch x.js", "--watch"),
            ("node --watch-path=src x.js", "--watch-path=src"),
            ("node -e 'x()'", "-e"),
            ("node --test", "--test"),
            ("node --inspect", NO_FILE),
            ("node -r x", NO_FILE),
            ("node - x", NO_FILE),
            ("node ''", NO_FILE),
            ("node", NO_FILE),
            ("A=b", "A=b"),
            ("", ""),
        ] {
            assert_eq!(NodeCommand::parse(text), Err(part.to_owned()), "{text}");
        }
    }
}
