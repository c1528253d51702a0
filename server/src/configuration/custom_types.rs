//! The sections `[app_type.NAME]` of `cabrank.toml`, which define types of applications.
//!
//! The key `app_type` names a type, and the sections of the same name define types. So a file has either of them.

use crate::configuration::section::{Section, in_line};
use crate::configuration::values::{Count, OptionValue, Whole};
use cabrank_spawner::Protocol;
use cabrank_spawner::app_type::CustomType;
use std::ops::Range;
use std::path::Path;

/// The name of the section that has the sections.
pub(crate) const NAME: &str = "app_type";

/// The keys of a section.
const KEYS: [&str; 7] =
    ["startup_file", "loader", "interpreter", "preloader", "title", "protocol", "concurrency"];

/// A protocol that the socket `main` may have.
#[derive(Clone)]
struct ProtocolOfMain(Protocol);

impl OptionValue for ProtocolOfMain {
    fn of_text(text: &str) -> Result<Self, String> {
        let known = Protocol::of_name(text).filter(|known| known.may_be_main());
        let names = || format!("must be one of {}", Protocol::names_of_main().join(", "));
        known.map(ProtocolOfMain).ok_or_else(names)
    }
}

/// Reads the sections below `[app_type]`, for applications in `root`.
///
/// # Errors
/// A definition is bad. `options` has the keys that stand above the first section.
pub(crate) fn read(
    mut section: Section<'_>,
    root: &Path,
    options: &[&str],
) -> Result<Vec<CustomType>, String> {
    let mut types = Vec::new();
    for (name, place) in section.names() {
        let Some(definition) = section.take_section(&name)? else {
            let problem = format!(
                "{name} is below [{NAME}]. Each type has a section of its own, such as [{NAME}.perl]."
            );
            return Err(section.error(&place, &problem));
        };
        types.push(custom_type(name, &place, definition, root, options)?);
    }
    Ok(types)
}

/// Reads one section, whose name stands at `place`.
fn custom_type(
    name: String,
    place: &Range<usize>,
    mut section: Section<'_>,
    root: &Path,
    options: &[&str],
) -> Result<CustomType, String> {
    if let Some((key, place)) = section.first_besides(&KEYS) {
        let problem = if options.contains(&&*key) {
            format!(
                "the key {key} is below [{NAME}.{name}], which has no such key. Move it above the first section."
            )
        } else {
            format!(
                "unknown key {key} in [{NAME}.{name}]. Remove it, or use one of the keys: {}.",
                KEYS.join(", ")
            )
        };
        return Err(section.error(&place, &problem));
    }
    let places = section.names();
    let text = section.text();
    let missing = |key: &str, meaning: &str| {
        let problem = format!("the section [{NAME}.{name}] has no {key}. Add {key} = {meaning}.");
        in_line(text, place.start, &problem)
    };
    let startup_file = "\"FILE\", the file that such applications have";
    let startup_file =
        section.take("startup_file")?.ok_or_else(|| missing("startup_file", startup_file))?;
    let loader = "\"FILE\", the program that loads them";
    let loader = section.take("loader")?.ok_or_else(|| missing("loader", loader))?;
    let custom = CustomType {
        startup_file,
        loader,
        interpreter: section.take("interpreter")?,
        preloader: section.take("preloader")?,
        title: section.take("title")?,
        protocol: section.take("protocol")?.map(|ProtocolOfMain(known)| known),
        concurrency: section.take("concurrency")?.map(|Whole(n): Count| n),
        name: name.clone(),
    };
    custom.check(root).map_err(|invalid| {
        let what = match invalid.key {
            "name" => format!("the name {name} in [{NAME}.{name}]"),
            key => format!("bad value for {key} in [{NAME}.{name}]:"),
        };
        let key = places.iter().find(|(key, _)| key == invalid.key);
        let place = key.map_or(place, |(_, place)| place);
        section.error(place, &format!("{what} {}.", invalid.problem))
    })?;
    Ok(custom)
}
