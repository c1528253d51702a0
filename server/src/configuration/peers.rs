//! The options of other servers, and what does the same here.
//!
//! Users of gunicorn, uvicorn, Puma, Passenger and pm2 type the options that they know. The error for such an option says what
//! to write instead.

mod answers;

use answers::ANSWERS;

/// Returns what does the work of another server's option, which is given with its dashes. `ours` are the keys of cabrank's.
pub(crate) fn answer(option: &str, ours: &[&str]) -> Option<String> {
    let known = |option: &str| {
        let row = ANSWERS.iter().find(|(options, _)| options.contains(&option));
        row.map(|(_, answer)| (*answer).to_owned())
    };
    // A directive of the module of nginx.
    let of_module = || {
        let name = option.strip_prefix("--passenger-")?;
        let is_ours = ours.contains(&&*name.replace('-', "_"));
        if is_ours { Some(format!("use --{name}")) } else { known(&format!("--{name}")) }
    };
    known(option).or_else(of_module)
}

/// Returns what does the work of a key or a section of another server's file, in the terms of `cabrank.toml`. `ours` are its keys.
pub(crate) fn answer_for_key(key: &str, ours: &[&str]) -> Option<String> {
    let answer = answer(&format!("--{}", key.replace('_', "-")), ours)?;
    let mut words = answer.split(' ').peekable();
    let mut all = Vec::new();
    while let Some(word) = words.next() {
        let (option, end) = without_end(word);
        let key = option.strip_prefix("--").map(|option| option.replace('-', "_"));
        let Some(key) = key.filter(|key| ours.contains(&&**key)) else {
            all.push(word.to_owned());
            continue;
        };
        let value = words.next_if(|word| end.is_empty() && is_value(word)).map(without_end);
        let is_number = |value: &str| {
            matches!(value, "N" | "SECONDS" | "BYTES" | "PORT") || value.parse::<u32>().is_ok()
        };
        all.push(match value {
            None => format!("{key}{end}"),
            Some((value, end)) if is_number(value) => format!("{key} = {value}{end}"),
            Some((value, end)) => format!("{key} = \"{value}\"{end}"),
        });
    }
    Some(all.join(" "))
}

/// Splits the punctuation from the end of a word.
fn without_end(word: &str) -> (&str, &str) {
    word.split_at(word.trim_end_matches([',', ':', '.']).len())
}

/// Returns whether a word behind an option is its value.
fn is_value(word: &str) -> bool {
    let (word, _) = without_end(word);
    ["wsgi", "asgi", "smart", "production"].contains(&word)
        || !word.chars().any(char::is_lowercase) && word.starts_with(|c: char| c.is_alphanumeric())
}

/// Returns what does the work of an option or an argument that a tool such as `cabrank stop` does not have.
pub(crate) fn answer_for_tool(argument: &str) -> Option<&'static str> {
    match argument {
        "--pid-file" | "-P" => {
            Some("use --instance with the name, directory or port, or `kill $(cat FILE)`")
        }
        "--ignore-app-not-running" | "--ignore-passenger-not-running" => {
            Some("not needed: without a running server, the exit code is 3")
        }
        "--rolling-restart" => Some(
            "not needed: the server restarts as its option --rolling-restarts says, one by one in production",
        ),
        "--port" | "-p" | "--socket" | "--name" => Some(NAME_SERVER),
        option if option.starts_with('-') => None,
        _ => Some(NAME_SERVER),
    }
}

const NAME_SERVER: &str =
    "name the server with --instance: its pid, name, directory, port or socket";

/// Returns the command that does the work of one of `passenger-config` and the like.
pub(crate) fn answer_for_command(command: &str) -> Option<&'static str> {
    Some(match command {
        "memory-stats" | "system-metrics" => "use `cabrank status`: the column Memory",
        "restart-app" | "reload" => "use `cabrank restart`",
        "list-instances" => "use `cabrank list`",
        "detach-process" => "use `cabrank detach PID`",
        "reopen-logs" => {
            "not needed: if the file of --log-file is renamed, the next lines go to a new one"
        }
        "serve" | "run" => "use `cabrank start DIR`",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::options::TABLE;

    fn ours() -> Vec<&'static str> {
        TABLE.iter().map(|row| row.name).collect()
    }

    fn answer(option: &str) -> Option<String> {
        super::answer(option, &ours())
    }

    fn answer_for_key(key: &str) -> Option<String> {
        super::answer_for_key(key, &ours())
    }

    #[test]
    fn no_option_of_another_server_is_one_of_ours() {
        for option in ANSWERS.iter().flat_map(|(options, _)| *options) {
            let is_ours = TABLE.iter().any(|row| {
                *option == format!("--{}", row.long())
                    || row.short.is_some_and(|short| *option == format!("-{short}"))
            });
            assert!(!is_ours, "{option}");
            assert!(answer(option).is_some_and(|answer| !answer.ends_with('.')));
        }
        let all = ANSWERS.iter().flat_map(|(options, _)| *options);
        assert_eq!(all.clone().count(), all.collect::<std::collections::BTreeSet<_>>().len());
    }

    /// Returns the options in the first column of a table of `docs/passenger.md`, each with the second column.
    fn rows(page: &str) -> Vec<(&str, &str)> {
        let (_, table) = page.split_once("| option | here |").unwrap();
        let rows = table.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
        let named = rows.flat_map(|(options, here)| {
            options
                .split('`')
                .filter(|word| word.starts_with("--"))
                .map(move |option| (option, here))
        });
        named.collect()
    }

    #[test]
    fn each_option_of_passenger_is_here_or_is_answered() {
        let rows = rows(include_str!("../../../docs/passenger.md"));
        assert_eq!(rows.len(), 79);
        for (option, here) in rows {
            let is_ours = TABLE.iter().any(|row| option == format!("--{}", row.long()));
            assert_eq!(is_ours, here.starts_with("the same"), "{option}");
            assert!(is_ours || answer(option).is_some(), "{option} has no answer");
        }
    }

    #[test]
    fn the_page_for_users_of_passenger_says_what_the_command_says() {
        let page = include_str!("../../../docs/from-passenger.md");
        let keys = |table: &str| {
            let (_, rows) = page.split_once(table).unwrap();
            let rows =
                rows.lines().skip(1).map_while(|line| line.strip_prefix("| ")?.split_once(" | "));
            let named = rows.flat_map(|(names, here)| {
                names.split('`').skip(1).step_by(2).map(move |name| (name, here))
            });
            named.collect::<Vec<_>>()
        };
        let of_file = keys("| `Passengerfile.json` | `cabrank.toml` |\n");
        assert_eq!(of_file.len(), 22);
        for (key, _) in of_file.iter().filter(|(key, _)| *key != "log_level") {
            assert!(answer_for_key(key).is_some(), "{key}");
        }
        let directives = keys("| directive | here |\n");
        assert!(directives.len() > 60);
        for (name, here) in directives {
            let option = name.strip_prefix("passenger_").unwrap_or_default().replace('_', "-");
            let is_ours = TABLE.iter().any(|row| row.long() == option);
            assert_eq!(
                here.starts_with("the same"),
                is_ours && !here.starts_with("replaced by"),
                "{name}"
            );
            if is_ours && here.starts_with("the same") {
                assert!(answer_for_key(name).is_some(), "{name}");
            }
        }
    }

    #[test]
    fn each_answer_names_options_that_exist() {
        let tools =
            ["--rolling-restart", "--pid-file", "x"].into_iter().filter_map(answer_for_tool);
        for answer in ANSWERS.iter().map(|(_, answer)| *answer).chain(tools) {
            for word in answer
                .split([' ', ',', ':'])
                .filter(|word| word.starts_with("--") && *word != "--instance")
            {
                assert!(TABLE.iter().any(|row| word == format!("--{}", row.long())), "{word}");
            }
        }
    }

    #[test]
    fn a_key_is_answered_with_keys() {
        for (key, answer) in [
            ("app_start_command", "use start_command = \"COMMAND\", with $PORT or $SOCKET in it"),
            ("thread_count", "use app_threads = N: each process serves N requests at once"),
            ("workers", "use max_pool_size = N, and min_instances = N to keep them all"),
            ("app_env", "use environment = \"NAME\""),
            (
                "no_friendly_error_pages",
                "use environment = \"production\" or staging: their error pages show no details",
            ),
            (
                "unlimited_concurrency_path",
                "use force_max_concurrent_requests_per_process = 0, for all paths",
            ),
            (
                "unlimited_concurrency_paths",
                "use force_max_concurrent_requests_per_process = 0, for all paths",
            ),
            ("socket_file", "use socket = \"PATH\""),
            (
                "abort_websockets_on_process_shutdown",
                "use drain_timeout = SECONDS: WebSockets have half of it",
            ),
            (
                "concurrency_model",
                "remove it if it is `process`, the default. If it is `thread`, use app_threads = N",
            ),
            ("passenger_max_requests", "use max_requests"),
            ("passenger_app_env", "use environment = \"NAME\""),
            ("app_root", "name the directory behind `cabrank start`"),
        ] {
            assert_eq!(answer_for_key(key).as_deref(), Some(answer), "{key}");
        }
        for (options, _) in ANSWERS {
            for option in options.iter().filter_map(|option| option.strip_prefix("--")) {
                let Some(answer) = answer_for_key(option) else {
                    assert!(option.contains('_'), "{option}");
                    continue;
                };
                let names_an_option = TABLE.iter().any(|row| {
                    answer.split([' ', ',', ':']).any(|word| word == format!("--{}", row.long()))
                });
                assert!(!names_an_option, "{option}: {answer}");
            }
        }
        for key in
            ["envvars", "env_var", "group", "turbocaching", "passenger_root", "passenger_pre_start"]
        {
            assert!(answer_for_key(key).is_some(), "{key}");
        }
    }
}
