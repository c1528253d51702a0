//! Advice after a failed boot, by the text of the error.
//!
//! One table: each row recognises the text that a language, or the system, prints for one kind of error.

use crate::app_type::{Interpreter, REGISTRY, Service};
use crate::file_rights::{is_file, with_rights_of};
use crate::user::User;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The facts that advice depends on.
pub(crate) struct Setup<'a> {
    /// The application's directory.
    pub(crate) root: &'a Path,
    /// The kind of the interpreter, if an option of the server names it.
    pub(crate) interpreter: Option<Interpreter>,
    /// The interpreter's program.
    pub(crate) program: &'a Path,
    /// The name of the user of the process.
    pub(crate) user: &'a str,
    /// The user with whose rights to look at files; `None`: the server's own.
    pub(crate) file_rights: Option<&'a User>,
}

/// The usual names of a virtual environment in an application's directory.
const ENVIRONMENTS: [&str; 3] = [".venv", "venv", "env"];

/// One kind of error: returns advice if the text shows it.
type Rule = fn(&str, &Setup<'_>) -> Option<String>;

/// The kinds of errors. The first that the text shows counts.
const RULES: [Rule; 11] = [
    old_interpreter,
    task_at_import,
    python_module,
    ruby_gem,
    node_package,
    node_module_format,
    variable,
    command,
    address_in_use,
    service,
    permission,
];

/// Returns what to try after an error with this text.
pub(crate) fn advise(text: &str, setup: &Setup<'_>) -> Option<String> {
    RULES.iter().find_map(|rule| rule(text, setup))
}

/// Returns the text between the first `begin` and the next `end`.
fn between<'a>(text: &'a str, begin: &str, end: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(begin)?;
    Some(rest.split_once(end)?.0)
}

/// An interpreter that is too old to read the loader.
fn old_interpreter(text: &str, setup: &Setup<'_>) -> Option<String> {
    let interpreter = setup.interpreter?;
    let language = match interpreter {
        Interpreter::Python => "Python 3.10",
        Interpreter::Ruby => "Ruby 3.0",
        Interpreter::Node => "Node.js 18",
    };
    let is_shown =
        text.lines().filter_map(|line| file_of_syntax_error(line, interpreter)).any(|file| {
            file.rsplit_once('/').is_some_and(|(_, name)| is_of_loader(name, interpreter))
        }) && text.to_lowercase().replace(' ', "").contains("syntaxerror");
    is_shown.then(|| {
        let option = interpreter.option();
        format!("cabrank needs {language} or newer. Name another interpreter with {option}.")
    })
}

/// Returns the file in a line that shows the place of an error of syntax. Frames of a backtrace are no such lines: the error in a
/// file of the application has frames of the loader, too.
fn file_of_syntax_error(line: &str, interpreter: Interpreter) -> Option<&str> {
    let (file, number) = match interpreter {
        // Behind the frame that loads the file.
        Interpreter::Ruby => line.split_once(": syntax error")?.0.rsplit_once(':')?,
        Interpreter::Python => {
            line.trim_start().strip_prefix("File \"")?.split_once("\", line ")?
        }
        Interpreter::Node => line.rsplit_once(':').filter(|_| !line.starts_with(' '))?,
    };
    number.trim_end().parse::<u32>().ok().map(|_| file)
}

/// Returns whether a file of this name belongs to the loader for an interpreter.
fn is_of_loader(name: &str, interpreter: Interpreter) -> bool {
    REGISTRY.iter().any(|app_type| match &app_type.service {
        Service::Loader(loader) => {
            loader.interpreter == interpreter && loader.files.iter().any(|(own, _)| *own == name)
        }
        _ => false,
    })
}

/// A task of `asyncio` that the application makes while it is imported.
fn task_at_import(text: &str, setup: &Setup<'_>) -> Option<String> {
    let is_shown = setup.interpreter == Some(Interpreter::Python)
        && text.contains("RuntimeError: no running event loop");
    is_shown.then(|| {
        "The application is imported before its event loop runs. Make tasks in the startup of the lifespan, or in a request."
            .into()
    })
}

fn python_module(text: &str, setup: &Setup<'_>) -> Option<String> {
    let module = between(text, "No module named '", "'")?;
    let program = setup.program.display();
    if setup.interpreter != Some(Interpreter::Python) {
        return Some(format!("Install the Python module {module}, or correct its name."));
    }
    let environments = ENVIRONMENTS.map(|dir| setup.root.join(dir).join("bin/python"));
    let found = environments
        .iter()
        .find(|python| is_file(setup.file_rights, python) && *python != setup.program);
    if let Some(dir) = unreadable_environment(setup) {
        return Some(format!(
            "The user {} cannot read the virtual environment {}. Give that user access to it, and to the interpreter that it \
             links to.",
            setup.user,
            dir.display()
        ));
    }
    Some(match found {
        Some(python) => format!(
            "The application has a virtual environment. Start it with --python {}.",
            python.display()
        ),
        None => format!(
            "Install {module} for {program}, or name the interpreter of the virtual environment that has it: \
             --python DIRECTORY/bin/python."
        ),
    })
}

/// Returns the virtual environment of the interpreter, or of the application, that the user may not read.
fn unreadable_environment(setup: &Setup<'_>) -> Option<PathBuf> {
    let is_hidden = |path: &Path| {
        let look = || {
            fs::metadata(path).and_then(|facts| {
                if facts.is_dir() { fs::read_dir(path).map(drop) } else { Ok(()) }
            })
        };
        let looked = with_rights_of(setup.file_rights, look);
        looked.is_err_and(|e| e.kind() == io::ErrorKind::PermissionDenied)
    };
    // Its interpreter starts, but without its modules.
    let of_program = setup.program.parent().and_then(Path::parent).map(Path::to_owned);
    let of_program = of_program.filter(|dir| dir.is_absolute() && is_hidden(&dir.join("lib")));
    let own = || {
        let mut dirs = ENVIRONMENTS.map(|dir| setup.root.join(dir)).into_iter();
        dirs.find(|dir| is_hidden(dir) || is_hidden(&dir.join("bin/python")))
    };
    of_program.or_else(own)
}

fn ruby_gem(text: &str, setup: &Setup<'_>) -> Option<String> {
    let root = setup.root.display();
    if text.contains("Your Ruby version is ") {
        return Some("Name the Ruby that the Gemfile asks for with --ruby.".into());
    }
    if text.contains("Bundler cannot set up the gems of ")
        || text.contains("Bundler::GemNotFound")
        || text.contains("in locally installed gems")
    {
        return Some(format!("Run `bundle install` in {root}."));
    }
    let (_, rest) = text.split_once("cannot load such file -- ")?;
    let file = rest.split_whitespace().next()?;
    if file.starts_with('/') {
        return Some(format!("Restore the file {file}.rb, or correct the line that requires it."));
    }
    Some(format!(
        "Add the gem that has {file} to the Gemfile, and run `bundle install` in {root}. If another Ruby has it, name \
         that one with --ruby."
    ))
}

fn node_package(text: &str, setup: &Setup<'_>) -> Option<String> {
    let module = between(text, "Cannot find module '", "'")
        .or_else(|| between(text, "Cannot find package '", "'"))?;
    if module.starts_with(['.', '/']) {
        return Some(format!("Restore the file {module}, or correct the line that requires it."));
    }
    Some(format!(
        "Run `npm install` in {}. If package.json does not name {module}: `npm install {module}`.",
        setup.root.display()
    ))
}

fn node_module_format(text: &str, _: &Setup<'_>) -> Option<String> {
    let is_module = text.contains("Cannot use import statement outside a module");
    let is_script = text.contains("require is not defined in ES module scope");
    if is_module {
        return Some(
            "Set \"type\": \"module\" in package.json, or end the file's name with .mjs.".into(),
        );
    }
    is_script.then(|| "Use import, or end the file's name with .cjs.".into())
}

/// A variable that the application reads without a default.
fn variable(text: &str, _: &Setup<'_>) -> Option<String> {
    let is_name = |name: &&str| {
        !name.is_empty()
            && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
    };
    let is_environ = text.contains("\"<frozen os>\"") || text.contains("/os.py\"");
    let python = is_environ.then(|| between(text, "KeyError: '", "'")).flatten();
    let ruby =
        text.contains("(KeyError)").then(|| between(text, "key not found: \"", "\"")).flatten();
    let name = python.or(ruby).filter(is_name)?;
    Some(format!(
        "Set the variable {name} in the environment in which the server starts: application processes inherit it."
    ))
}

/// A start command that the shell does not find.
fn command(text: &str, _: &Setup<'_>) -> Option<String> {
    let line = text
        .lines()
        .find(|line| line.trim_end().ends_with(": not found") && line.contains("sh: "))?;
    let program = line.trim_end().strip_suffix(": not found")?.rsplit(": ").next()?;
    Some(format!("Install {program}, or write its whole path into the start command."))
}

fn address_in_use(text: &str, _: &Setup<'_>) -> Option<String> {
    let shows =
        text.contains("EADDRINUSE") || text.to_lowercase().contains("address already in use");
    shows.then(|| {
        "The application opens a port of its own, and another process has it: perhaps one of its own, for the server \
         starts several. Let each process choose a free port, or limit them with --max-pool-size 1."
            .into()
    })
}

fn service(text: &str, _: &Setup<'_>) -> Option<String> {
    let shows = text.contains("ECONNREFUSED") || text.contains("Connection refused");
    shows.then(|| {
        "Start the service that the application connects to, such as its database, or correct its address.".into()
    })
}

fn permission(text: &str, setup: &Setup<'_>) -> Option<String> {
    let shows = text.contains("EACCES") || text.contains("Permission denied");
    shows.then(|| {
        format!("Give the user {} access to the file in the message, or choose another user with --user.", setup.user)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn advice(text: &str, interpreter: Option<Interpreter>, root: &Path) -> String {
        let program = Path::new("/usr/bin/python3");
        advice_as(None, text, interpreter, root, program)
    }

    fn advice_as(
        file_rights: Option<&User>,
        text: &str,
        interpreter: Option<Interpreter>,
        root: &Path,
        program: &Path,
    ) -> String {
        let setup = Setup { root, interpreter, program, user: "deploy", file_rights };
        advise(text, &setup).unwrap_or_default()
    }

    #[test]
    fn each_kind_of_error_has_its_advice() {
        let root = Path::new("/srv/shop");
        for (text, part) in [
            ("ModuleNotFoundError: No module named 'flask'\n", "Install the Python module flask"),
            (
                "config.ru:1:in `require': cannot load such file -- sinatra (LoadError)",
                "has sinatra",
            ),
            ("cannot load such file -- /srv/shop/lib/a (LoadError)", "/srv/shop/lib/a.rb"),
            (
                "Could not find rack-3.0 in locally installed gems (Bundler::GemNotFound)",
                "bundle install",
            ),
            (
                "Bundler cannot set up the gems of /srv/shop/Gemfile: no (LoadError)",
                "bundle install",
            ),
            ("Your Ruby version is 3.1.2, but your Gemfile specified 3.3", "--ruby"),
            ("Error: Cannot find module 'express'\nRequire stack:", "npm install express"),
            ("Error: Cannot find module './db'\n", "file ./db"),
            ("Cannot find package 'koa' imported from /a", "npm install koa"),
            ("SyntaxError: Cannot use import statement outside a module", "\"type\""),
            ("  File \"<frozen os>\", line 6\nKeyError: 'SECRET_KEY'\n", "variable SECRET_KEY"),
            (
                "config.ru:1:in `fetch': key not found: \"DATABASE_URL\" (KeyError)",
                "variable DATABASE_URL",
            ),
            ("/bin/sh: 1: gunicorn: not found", "Install gunicorn"),
            ("Error: listen EADDRINUSE: address already in use :::3000", "--max-pool-size 1"),
            ("psycopg.OperationalError: Connection refused", "Start the service"),
            ("PermissionError: [Errno 13] Permission denied: '/etc/shadow'", "user deploy"),
        ] {
            let advice = advice(text, None, root);
            assert!(advice.contains(part), "{text}: {advice}");
        }
        for text in
            ["", "KeyError: 'SECRET_KEY'", "KeyError: 'x'", "RuntimeError: no", "a: not found"]
        {
            assert_eq!(advice(text, None, root), "", "{text}");
        }
    }

    #[test]
    fn a_task_that_is_made_at_import_has_a_better_place() {
        let text = "  File \"/srv/a/asgi.py\", line 2\nRuntimeError: no running event loop\n";
        let shown = advice(text, Some(Interpreter::Python), Path::new("/srv/shop"));
        assert!(shown.contains("in the startup of the lifespan"), "{shown}");
    }

    #[test]
    fn an_interpreter_that_cannot_read_the_loader_is_too_old() {
        for (interpreter, text, part) in [
            (
                Interpreter::Python,
                "  File \"/run/cabrank.1.x/python-loader.py\", line 105\n    async def x\nSyntaxError: invalid syntax\n",
                "Python 3.10 or newer. Name another interpreter with --python.",
            ),
            (Interpreter::Ruby, "/run/x/rack-boot.rb:3: syntax error, unexpected '='", "--ruby"),
            (
                Interpreter::Node,
                "/run/x/node-loader.js:9\nSyntaxError: Unexpected token",
                "--nodejs",
            ),
        ] {
            let shown = advice(text, Some(interpreter), Path::new("/srv/shop"));
            assert!(shown.contains(part), "{text}: {shown}");
        }
        for (interpreter, own) in [
            (
                Interpreter::Ruby,
                "/gems/rack-2.2.22/lib/rack/builder.rb:116:in `eval': /srv/shop/config.ru:2: syntax error, unexpected '}' (SyntaxError)\n\
                 \tfrom /gems/rack-2.2.22/lib/rack/builder.rb:105:in `load_file'\n\tfrom /run/x/rack-boot.rb:9:in `run'\n",
            ),
            (
                Interpreter::Ruby,
                "/srv/shop/rack-app/config.ru:2: syntax error, unexpected end-of-input",
            ),
            (
                Interpreter::Ruby,
                "/srv/shop/config/rack-attack.rb:2: syntax errors found (SyntaxError)",
            ),
            (
                Interpreter::Node,
                "/srv/node-shop/app.js:1\nconst x = ;\n          ^\n\nSyntaxError: Unexpected token ';'\n    at wrapSafe \
                 (node:internal/modules/cjs/loader:1464:18)\n    at load (/run/x/node-loader.js:154:12)\n",
            ),
            (
                Interpreter::Python,
                "  File \"/srv/shop/app.py\", line 1\nSyntaxError: invalid syntax\n",
            ),
            (
                Interpreter::Python,
                "  File \"/run/x/python-loader.py\", line 9, in load\n  File \"/srv/shop/app.py\", line 1\nSyntaxError: invalid syntax\n",
            ),
        ] {
            assert_eq!(advice(own, Some(interpreter), Path::new("/srv/shop")), "", "{own}");
        }
    }

    #[test]
    fn a_missing_python_module_points_to_the_virtual_environment() {
        let root = tempfile::tempdir().unwrap();
        let text = "ModuleNotFoundError: No module named 'flask'\n";
        let python = Some(Interpreter::Python);
        let without = advice(text, python, root.path());
        assert!(without.contains("flask for /usr/bin/python3"), "{without}");
        std::fs::create_dir_all(root.path().join(".venv/bin")).unwrap();
        std::fs::write(root.path().join(".venv/bin/python"), "").unwrap();
        let with = advice(text, python, root.path());
        assert!(
            with.contains(&format!("--python {}/.venv/bin/python", root.path().display())),
            "{with}"
        );
    }

    #[test]
    fn a_virtual_environment_counts_only_if_the_user_may_see_it() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root may take another user's rights");
            return;
        }
        let (root, private) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::set_permissions(root.path(), PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::set_permissions(private.path(), PermissionsExt::from_mode(0o700)).unwrap();
        std::fs::write(private.path().join("exists"), "").unwrap();
        std::fs::create_dir_all(root.path().join(".venv/bin")).unwrap();
        let python = root.path().join(".venv/bin/python");
        let text = "ModuleNotFoundError: No module named 'flask'\n";
        let user = crate::file_rights::tests::nobody();
        let advice = || {
            let interpreter = Some(Interpreter::Python);
            advice_as(Some(&user), text, interpreter, root.path(), Path::new("/usr/bin/python3"))
        };
        // Whether there is such a file stays unknown.
        for name in ["exists", "missing"] {
            std::os::unix::fs::symlink(private.path().join(name), &python).unwrap();
            let hidden = advice();
            assert!(
                hidden.starts_with("The user deploy cannot read the virtual environment"),
                "{hidden}"
            );
            std::fs::remove_file(&python).unwrap();
        }
        let of_program = || {
            let (interpreter, program) =
                (Some(Interpreter::Python), root.path().join("own/bin/python"));
            advice_as(Some(&user), text, interpreter, Path::new("/srv/shop"), &program)
        };
        std::fs::create_dir_all(root.path().join("own/lib")).unwrap();
        assert!(of_program().starts_with("Install flask for"), "{}", of_program());
        let lib = root.path().join("own/lib");
        std::fs::set_permissions(&lib, PermissionsExt::from_mode(0o700)).unwrap();
        assert!(
            of_program().contains(&format!("environment {}/own. Give", root.path().display())),
            "{}",
            of_program()
        );
        std::os::unix::fs::symlink("/etc/passwd", &python).unwrap();
        assert!(advice().contains("has a virtual environment"));
    }
}
