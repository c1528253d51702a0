//! `docs/options.md`, which is made from the table, and the figures of the README that stand in the table, too.

use crate::configuration::options::TABLE;
use crate::configuration::table::{Default, Heading, Row, Scope};
use cabrank_spawner::app_type::{REGISTRY, Service};
use std::fmt::Write;
use std::path::Path;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/options.md");
const README: &str = include_str!("../../../README.md");

fn page() -> String {
    let mut page = "\
# The options of `cabrank start`

Each option has three places: the command line, the environment and the file `cabrank.toml` in the application's
directory. `--max-pool-size 6`, `CABRANK_MAX_POOL_SIZE=6` and `max_pool_size = 6` say the same. The command line overrides
the environment, the environment overrides the file, and the file overrides the default.

The server makes its command line, its help and this page from one table, `server/src/configuration/options.rs`.
`CABRANK_WRITE_DOCS=1 cargo test -p cabrank-server page_of_options` writes this page.
"
    .to_owned();
    let headings = [
        Heading::Options,
        Heading::Pool,
        Heading::Application,
        Heading::Restarts,
        Heading::Limits,
        Heading::Logs,
    ];
    for heading in headings {
        let name = match heading {
            Heading::Options => "The server".to_owned(),
            other => format!("{other:?}"),
        };
        write!(
            page,
            "\n## {name}\n\n| option | value | default | for | about |\n|---|---|---|---|---|\n"
        )
        .unwrap();
        for row in TABLE.iter().filter(|row| row.heading == heading) {
            page.push_str(&line(row));
        }
    }
    page
}

fn line(row: &Row) -> String {
    let short = row.short.map(|short| format!("`-{short}`, ")).unwrap_or_default();
    let no = match row.no {
        Some(help) => format!(" `--no-{}`: {}.", row.long(), first_small(help)),
        None => String::new(),
    };
    let default = match row.default {
        Default::Is(value) => format!("`{value}`"),
        Default::By(text) => text.to_owned(),
        Default::None => "none".to_owned(),
    };
    let scope = match row.scope {
        Scope::Server => "server",
        Scope::Listener => "listener",
        Scope::Application => "application",
    };
    format!(
        "| {short}`--{}` | {} | {default} | {scope} | {}.{no} |\n",
        row.long(),
        row.value,
        row.help.replace('|', "\\|")
    )
}

fn first_small(text: &str) -> String {
    let (first, rest) = text.split_at(1);
    format!("{}{rest}", first.to_lowercase())
}

#[test]
fn the_page_of_options_is_made_from_the_table() {
    let page = page();
    if std::env::var_os("CABRANK_WRITE_DOCS").is_some() {
        std::fs::write(PAGE, &page).unwrap();
    }
    let written = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(written == page, "docs/options.md is out of date: CABRANK_WRITE_DOCS=1 writes it");
}

#[test]
fn each_default_is_a_value_of_its_option() {
    for row in TABLE {
        let Default::Is(default) = row.default else { continue };
        let option = clap::Arg::new("it").value_parser((row.parser)());
        let command = clap::Command::new("x").arg(option);
        assert!(command.try_get_matches_from(["x", default]).is_ok(), "{}", row.name);
    }
}

#[test]
fn the_help_of_app_type_names_the_types_of_the_registry() {
    let help = row("--app-type").help;
    let types = help.strip_prefix("The type of the application: ").unwrap();
    let named: Vec<_> = types.split(", ").take_while(|word| !word.contains(' ')).collect();
    let mut served: Vec<_> =
        REGISTRY.iter().filter(|t| !matches!(t.service, Service::Instead(_))).collect();
    // The type without a loader comes last.
    served.sort_by_key(|t| t.service == Service::Command);
    let served: Vec<_> = served.iter().map(|t| t.name).collect();
    assert_eq!(named, served);
}

/// Returns a default as the README writes it.
fn in_words(row: &Row) -> String {
    match (row.default, row.value) {
        (Default::By(text), _) => text.to_owned(),
        (Default::Is("0"), _) => "off".to_owned(),
        (Default::Is(value), "SECONDS") => format!("{value} s"),
        (Default::Is(value), "BYTES") => match value.parse::<u64>().unwrap() {
            n if n % (1 << 30) == 0 => format!("{} GiB", n >> 30),
            n if n % 1024 == 0 => format!("{} KiB", n >> 10),
            n => format!("{n} bytes/s"),
        },
        (Default::Is(value), _) => value.to_owned(),
        (Default::None, _) => String::new(),
    }
}

fn row(option: &str) -> &'static Row {
    let row = TABLE.iter().find(|row| format!("--{}", row.long()) == option);
    row.unwrap_or_else(|| panic!("the README has {option}"))
}

#[test]
fn the_readme_has_the_defaults_of_the_table() {
    let mut rows = 0;
    for line in README.lines().filter(|line| line.starts_with("| `--") && !line.contains("--no-")) {
        let [_, options, default, _, _] = line.split('|').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let defaults: Vec<_> = default.trim().split(", ").collect();
        for (i, option) in options.trim().split(", ").enumerate() {
            let default = defaults[i.min(defaults.len() - 1)];
            assert_eq!(in_words(row(option.trim_matches('`'))), default, "{option}");
            rows += 1;
        }
    }
    assert!(rows >= 12, "the table of limits has {rows} options");
    let named = README.split("Options have Passenger's names and defaults").nth(1).unwrap();
    let named = &named[named.find('(').unwrap() + 1..named.find(')').unwrap()];
    for example in named.split(", ") {
        let (option, default) = example.trim_matches('`').split_once(' ').unwrap();
        assert_eq!(row(option).default, Default::Is(default), "{option}");
    }
}

/// Returns the text of all files below a directory whose names end so.
fn texts(dir: &Path, ending: &str, all: &mut String) {
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            texts(&path, ending, all);
        } else if path.to_string_lossy().ends_with(ending) {
            all.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn the_pages_on_passenger_and_web_servers_name_tests_that_exist() {
    let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut code = String::new();
    for dir in ["server/src", "server/tests", "spawner/src"] {
        texts(&base.join(dir), ".rs", &mut code);
    }
    for page in ["passenger.md", "behind-a-web-server.md"] {
        let page = std::fs::read_to_string(base.join("docs").join(page)).unwrap();
        let is_name = |name: &str| {
            !name.is_empty()
                && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        };
        let quoted = page.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
        let tests =
            quoted.filter_map(|word| word.split_once("::")).filter(|(module, _)| is_name(module));
        let mut found = 0;
        for (module, name) in tests.filter(|(module, _)| *module != "cabrank") {
            let is_there = match name {
                "" => code.contains(&format!("mod {module};")),
                name => code.contains(&format!("fn {}(", name.rsplit("::").next().unwrap())),
            };
            assert!(is_there || name == "origins", "{module}::{name}");
            found += 1;
        }
        assert!(found > 5);
    }
}
