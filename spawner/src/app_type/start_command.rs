//! The command that starts an application which has no loader.

use crate::error::Error;

/// A command for the shell. It starts a program that serves HTTP at the place that a variable names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartCommand {
    text: String,
    place: Place,
}

/// Where such a program listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On the port of the loopback interface that the variable `PORT` names.
    Port,
    /// On the Unix socket that the variable `SOCKET` names.
    Socket,
}

impl Place {
    /// Returns the name of the variable.
    pub fn variable(self) -> &'static str {
        match self {
            Place::Port => "PORT",
            Place::Socket => "SOCKET",
        }
    }
}

impl StartCommand {
    /// Returns the command. Its program listens on a socket if the text has `$SOCKET`, else on a port.
    ///
    /// # Errors
    /// The text is empty, or has both `$PORT` and `$SOCKET`.
    pub fn new(text: &str) -> Result<StartCommand, Error> {
        let text = text.trim().to_owned();
        if text.is_empty() || text.contains('\0') {
            return Err(Error::usage(
                "the start command is empty. --start-command takes a command such as './server --port $PORT'.",
            ));
        }
        let place = match (mentions(&text, "PORT"), mentions(&text, "SOCKET")) {
            (true, true) => {
                return Err(Error::usage(format!(
                    "the start command `{text}` has both $PORT and $SOCKET. Keep the one in --start-command on which the \
                     application listens."
                )));
            }
            (false, true) => Place::Socket,
            (_, false) => Place::Port,
        };
        Ok(StartCommand { text, place })
    }

    /// Returns the text as the user wrote it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text for the shell. If the command is a single program, it takes the shell's place: it then gets
    /// signals itself.
    pub(crate) fn script(&self) -> String {
        if is_single_program(&self.text) {
            format!("exec {}", self.text)
        } else {
            self.text.clone()
        }
    }

    /// Returns where the program listens.
    pub fn place(&self) -> Place {
        self.place
    }
}

/// Returns whether a shell would insert the variable: `$NAME`, `${NAME}` or `${NAME:-…}`.
fn mentions(text: &str, name: &str) -> bool {
    text.split('$').skip(1).any(|rest| {
        let rest = rest.strip_prefix('{').unwrap_or(rest);
        let continues = |c: char| c.is_ascii_alphanumeric() || c == '_';
        rest.strip_prefix(name).is_some_and(|after| !after.starts_with(continues))
    })
}

/// Returns whether the text is the name of a program and its arguments. If in doubt, it is not.
fn is_single_program(text: &str) -> bool {
    let program = text.split_whitespace().next().unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._+-".contains(c);
    !program.is_empty()
        && program.chars().all(is_plain)
        && !BUILTINS.contains(&program)
        && !text.contains(|c| ";&|<>()`\n#".contains(c))
}

/// Words that the shell itself executes, and that a command for a server may begin with.
const BUILTINS: [&str; 12] =
    [".", "cd", "command", "eval", "exec", "export", "for", "if", "set", "trap", "ulimit", "while"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_in_the_text_decides_where_the_program_listens() {
        for (text, place) in [
            ("./serve $PORT", Place::Port),
            ("./serve", Place::Port),
            ("./serve unix:$SOCKET", Place::Socket),
            ("A=${SOCKET} ./serve", Place::Socket),
            ("./serve ${SOCKET:-x} $PORTS ${PORT_2}", Place::Socket),
            ("./serve $SOCKETS", Place::Port),
        ] {
            assert_eq!(StartCommand::new(text).unwrap().place(), place, "{text}");
        }
    }

    #[test]
    fn a_single_program_takes_the_place_of_the_shell() {
        let script = |text: &str| StartCommand::new(text).unwrap().script();
        for text in ["./serve --port $PORT", "npm start", "x -e \"a b\" ${PORT}"] {
            assert_eq!(script(text), format!("exec {text}"));
        }
        for text in [
            "A=b ./serve",
            "a && b",
            "(a)",
            "exec a",
            "cd x",
            "a # b",
            "a > b",
            "a $(b)",
            "if a\nfi",
        ] {
            assert_eq!(script(text), text);
        }
    }

    #[test]
    fn an_empty_command_and_one_with_both_variables_are_refused() {
        for (text, part) in [(" ", "empty"), ("x $PORT ${SOCKET}", "both $PORT and $SOCKET")] {
            let message = StartCommand::new(text).unwrap_err().message().to_owned();
            assert!(message.contains(part), "{message}");
        }
    }
}
