//! Python applications that are named by a module, as gunicorn and uvicorn take them: `package.module:name`.
//!
//! Behind the colon stands the name of the application in the module, perhaps with attributes (`container.app`), or the call of a
//! function that returns it (`create_app()`, `create_app("production")`). Without a name, the loader looks for `application`
//! and `app`, as it does in a startup file.

/// The rule for the names of such applications.
pub(super) const RULE: &str = "--app takes a Python module and the application's name in it, such as package.module:name (without `.py`), or \
                               package.module:name() for a function that returns the application.";

/// Returns the module and the name with a colon between them, which the loader takes in the place of a startup file.
///
/// The loader parses the name.
pub(super) fn normal(text: &str) -> Option<String> {
    let (module, name) = text.split_once(':').unwrap_or((text, ""));
    let is_name = |part: &str| {
        let is_part = |c: char| c == '_' || c.is_alphanumeric();
        part.chars().all(is_part) && part.chars().next().is_some_and(|c| !c.is_numeric())
    };
    let is_module = module.split('.').all(is_name) && !module.ends_with(".py");
    (is_module && !name.contains(['\n', '\0'])).then(|| format!("{module}:{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_a_path_of_names() {
        for (text, found) in [
            ("main:app", "main:app"),
            ("site.wsgi", "site.wsgi:"),
            ("a_b.c1:create(\"x:y\", z=1)", "a_b.c1:create(\"x:y\", z=1)"),
            ("größe:app", "größe:app"),
        ] {
            assert_eq!(normal(text).as_deref(), Some(found));
        }
        for bad in [
            "", ":app", "a..b:app", "app.py:", "a/b:app", "1a:app", "a b:app", ".a:app", "a:b\nc",
            "a-b:app",
        ] {
            assert_eq!(normal(bad), None, "{bad}");
        }
    }
}
