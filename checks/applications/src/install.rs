//! How applications are installed, and the versions of their frameworks.

use crate::catalog::{Application, Language};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable that Rails wants in production.
pub(crate) const SECRET: (&str, &str) = ("SECRET_KEY_BASE", "for tests");

/// Makes the virtual environment that all applications of one place share.
pub(crate) const NEW_VENV: &str = "test -e ../venv || python3 -m venv ../venv";

const ADD_PACKAGES: &str = "
dpkg -s $PACKAGES >/dev/null 2>&1 && exit
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $PACKAGES";

const PIP_INSTALL: &str = r#"
cmp -s "$SOURCE/requirements.txt" requirements.txt && exit
../venv/bin/python -m pip install --quiet -r "$SOURCE/requirements.txt""#;

const NPM_INSTALL: &str = r#"
cmp -s "$SOURCE/package.json" package.json && exit
cp "$SOURCE/package.json" .
npm install --no-audit --no-fund --loglevel=error || { rm package.json; exit 1; }"#;

impl Language {
    /// Returns the scripts that install what the files below `$SOURCE` need. An application that has been
    /// installed before has a copy of the file that names its packages.
    fn scripts(self) -> &'static [&'static str] {
        match self {
            Language::Ruby(_) => &[ADD_PACKAGES],
            Language::Python => &[NEW_VENV, PIP_INSTALL],
            Language::Node => &[NPM_INSTALL],
        }
    }
}

/// Returns the directory of the files of an application.
fn source(application: &Application) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(application.name)
}

/// Runs scripts of a shell in a directory, up to the first that fails. Returns the output of the last one.
pub(crate) fn shell(
    directory: &Path,
    variables: &[(&str, &str)],
    scripts: &[&str],
) -> Result<String, String> {
    let mut text = String::new();
    for script in scripts {
        let mut command = Command::new("sh");
        command.args(["-ec", script]).current_dir(directory).env(SECRET.0, SECRET.1);
        let out = command.envs(variables.iter().copied()).output();
        let out = out.map_err(|e| format!("a shell in {}: {e}", directory.display()))?;
        text = String::from_utf8_lossy(&out.stdout).into_owned();
        if !out.status.success() {
            text += &String::from_utf8_lossy(&out.stderr);
            let end = text.ceil_char_boundary(text.len().saturating_sub(1500));
            return Err(format!("{} failed: {}", script.trim(), &text[end..]));
        }
    }
    Ok(text)
}

/// Makes a directory.
pub(crate) fn make(directory: &Path) -> Result<(), String> {
    fs::create_dir_all(directory).map_err(|e| format!("{}: {e}", directory.display()))
}

/// Reads a file.
pub(crate) fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

/// Writes a file.
pub(crate) fn write(path: &Path, text: impl AsRef<[u8]>) -> Result<(), String> {
    fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}

/// Installs an application. Returns its directory, ready to start.
pub(crate) fn install(application: &Application, root: &Path) -> Result<PathBuf, String> {
    let directory = root.join("target/applications").join(application.place);
    make(&directory)?;
    let source = source(application).display().to_string();
    let packages = match application.language {
        Language::Ruby(packages) => packages.join(" "),
        Language::Python | Language::Node => String::new(),
    };
    let copy = [r#"cp -R "$SOURCE/." ."#, "echo 1 >VERSION"];
    let scripts = [application.language.scripts(), application.before, &copy, application.after];
    let variables = [("SOURCE", source.as_str()), ("PACKAGES", &packages)];
    shell(&directory, &variables, &scripts.concat())?;
    Ok(directory)
}

/// Returns the names of the packages, each with its version.
pub(crate) fn versions(application: &Application) -> Result<String, String> {
    let source = source(application);
    let all: Vec<String> = match application.language {
        Language::Ruby(packages) => {
            let line =
                format!("dpkg-query -W -f '${{Package}} ${{Version}}\\n' {}", packages.join(" "));
            let listed = shell(&source, &[], &[&line])?;
            listed.lines().map(without_debian).collect()
        }
        Language::Python => {
            let text = read(&source.join("requirements.txt"))?;
            text.lines().map(|line| line.replace("==", " ")).collect()
        }
        Language::Node => {
            let text = read(&source.join("package.json"))?;
            let package: serde_json::Value =
                serde_json::from_str(&text).map_err(|e| format!("package.json: {e}"))?;
            let all = package["dependencies"].as_object().into_iter().flatten();
            all.map(|(name, version)| format!("{name} {}", version.as_str().unwrap_or("?")))
                .collect()
        }
    };
    Ok(all.join(", "))
}

/// Returns a package and its version as the language has them: `rails 6.1.7` for `ruby-rails 2:6.1.7+dfsg-3`.
fn without_debian(package: &str) -> String {
    let (name, version) = package.split_once(' ').unwrap_or((package, "?"));
    let version = version.split_once(':').map_or(version, |(_, rest)| rest);
    let version = version.split(['+', '~', '-']).next().unwrap_or(version);
    format!("{} {version}", name.trim_start_matches("ruby-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_debian_become_those_of_the_language() {
        assert_eq!(without_debian("ruby-rails 2:6.1.7.10+dfsg-1~deb12u2"), "rails 6.1.7.10");
        assert_eq!(without_debian("ruby-sqlite3 1.4.2-4+b4"), "sqlite3 1.4.2");
    }
}
