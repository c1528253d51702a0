//! The application's environment: by an option, or by the variables of its framework, such as `NODE_ENV`.
//!
//! The variables count if no option, no `CABRANK_ENVIRONMENT` and no key of the file names the environment. Those
//! of the application's type come first, then Passenger's own, then the others. One that the script `start` of a Node application
//! sets counts before the server's own, and one in the file of `--env-file` behind it.

use crate::failure::Failure;
use cabrank_spawner::app_type::{App, ENVIRONMENT_VARIABLES};

/// Returns the name of the environment: the given one, else that of a variable, else development.
///
/// # Errors
/// The name is empty, or has a character that the handshake does not allow.
pub(crate) fn of(
    app: &App,
    given: Option<&str>,
    of_file: &[(String, String)],
) -> Result<String, Failure> {
    let in_file =
        |name: &str| of_file.iter().rev().find(|pair| pair.0 == name).map(|pair| &*pair.1);
    let (source, name) = match given {
        Some(name) => (None, name.to_owned()),
        None => from_variables(app.environment_variables, |name| {
            let own = app.variable(name).map(Into::into).or_else(|| std::env::var_os(name));
            own.or_else(|| in_file(name).map(Into::into))
        })
        .map_err(|variable| Failure::usage(format!("the value of {variable} is not UTF-8.")))?
        .map_or((None, "development".into()), |(variable, name)| (Some(variable), name)),
    };
    if name.is_empty() || name.contains(['\n', '\0']) {
        let source = source.map(|variable| format!(" in {variable}")).unwrap_or_default();
        return Err(Failure::usage(format!(
            "the name of the environment{source} is empty or has a line break. Set it to a name such as \
             development or production (--environment, CABRANK_ENVIRONMENT, or environment in \
             cabrank.toml).",
        )));
    }
    Ok(name)
}

/// Returns the first variable that is set and not empty, and its value.
///
/// # Errors
/// The name of a variable whose value is not UTF-8.
fn from_variables(
    own: &[&'static str],
    lookup: impl Fn(&str) -> Option<std::ffi::OsString>,
) -> Result<Option<(&'static str, String)>, &'static str> {
    let set = |name| lookup(name).filter(|value| !value.is_empty()).map(|value| (name, value));
    match own.iter().chain(&ENVIRONMENT_VARIABLES).find_map(|name| set(*name)) {
        Some((name, value)) => Ok(Some((name, value.into_string().map_err(|_| name)?))),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cabrank_spawner::app_type::REGISTRY;

    fn chosen(app_type: &str, variables: &[(&str, &str)]) -> Option<(&'static str, String)> {
        let app_type = REGISTRY.iter().find(|t| t.name == app_type).unwrap();
        let lookup = |name: &str| variables.iter().find(|v| v.0 == name).map(|v| v.1.into());
        from_variables(app_type.environment_variables, lookup).unwrap()
    }

    #[test]
    fn the_variable_of_the_applications_type_comes_first() {
        let both = [("NODE_ENV", "test"), ("PASSENGER_APP_ENV", "staging"), ("WSGI_ENV", "")];
        assert_eq!(chosen("node", &both), Some(("NODE_ENV", "test".into())));
        assert_eq!(chosen("wsgi", &both), Some(("PASSENGER_APP_ENV", "staging".into())));
        assert_eq!(chosen("rack", &both[..1]), Some(("NODE_ENV", "test".into())));
        assert_eq!(chosen("rack", &both[2..]), None);
        let ruby = [("RACK_ENV", "one"), ("RAILS_ENV", "two")];
        assert_eq!(chosen("rack", &ruby), Some(("RACK_ENV", "one".into())));
        assert_eq!(chosen("classic-rails", &ruby), Some(("RAILS_ENV", "two".into())));
    }
}
