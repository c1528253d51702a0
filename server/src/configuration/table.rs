//! The form of the table of options: what a row says, and what its columns are for.

use crate::configuration::file::FileOptions;
use crate::configuration::values::OptionValue;
use crate::failure::Failure;
use clap::builder::ValueParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches};
use std::fmt;
use std::ops::Deref;

/// One option of `cabrank start`. Command line, environment, file, help and documentation are made from it.
#[derive(Debug)]
pub(crate) struct Row {
    /// The name in the file: `max_pool_size`. It is `--max-pool-size` on the command line, and `CABRANK_MAX_POOL_SIZE` in
    /// the environment.
    pub(crate) name: &'static str,
    /// The one letter that stands for it on the command line.
    pub(crate) short: Option<char>,
    /// The kind of its value, for the help.
    pub(crate) value: &'static str,
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "with one application, it is for the page of options")
    )]
    pub(crate) scope: Scope,
    pub(crate) heading: Heading,
    pub(crate) default: Default,
    pub(crate) help: &'static str,
    /// The help of the option `--no-…`, if there is one.
    pub(crate) no: Option<&'static str>,
    pub(crate) is_switch: bool,
    pub(crate) is_list: bool,
    pub(crate) parser: fn() -> ValueParser,
}

/// The part of the configuration that an option belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Server,
    Listener,
    Application,
}

/// The part of the help where an option is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heading {
    Options,
    Pool,
    Application,
    Restarts,
    Limits,
    Logs,
}

/// The value of an option that is not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Default {
    /// This value, written as on the command line.
    Is(&'static str),
    /// It depends, as the text says.
    By(&'static str),
    /// The option has no default.
    None,
}

impl Row {
    /// Returns the option's name on the command line.
    pub(crate) fn long(&self) -> String {
        self.name.replace('_', "-")
    }

    /// Returns the option's environment variable.
    pub(crate) fn variable(&self) -> String {
        variable(self.name)
    }

    /// Returns the default, for people.
    pub(crate) fn default_text(&self) -> Option<&'static str> {
        match self.default {
            Default::Is(text) | Default::By(text) => Some(text),
            Default::None => None,
        }
    }

    /// Returns the arguments that stand for it on the command line.
    pub(crate) fn arguments(&self) -> impl Iterator<Item = Arg> {
        let default = self.default_text().map(|text| format!(" [default: {text}]"));
        let mut arg = Arg::new(self.name)
            .long(self.long())
            .env(self.variable())
            .value_name(self.value)
            .value_parser((self.parser)())
            .action(if self.is_list { ArgAction::Append } else { ArgAction::Set })
            .help(format!("{}{}", self.help, default.unwrap_or_default()));
        if let Some(short) = self.short {
            arg = arg.short(short);
        }
        if self.is_switch {
            arg = arg.num_args(0..=1).require_equals(true).default_missing_value("true");
        }
        let no = self.no.map(|help| {
            let name = no(self.name);
            let long = name.replace('_', "-");
            Arg::new(name)
                .long(long)
                .action(ArgAction::SetTrue)
                .conflicts_with(self.name)
                .help(help)
        });
        [Some(arg), no].into_iter().flatten().map(|arg| match self.heading {
            Heading::Options => arg,
            heading => arg.help_heading(format!("{heading:?}")),
        })
    }
}

/// Returns the name of the option that turns another one off.
fn no(name: &str) -> String {
    format!("no_{name}")
}

/// Returns the environment variable of the option with this name.
pub(crate) fn variable(name: &str) -> String {
    format!("CABRANK_{}", name.to_uppercase())
}

/// Returns the variable by which platforms such as Heroku name the value of an option.
fn common_variable(name: &str) -> Option<&'static str> {
    (name == "port").then_some("PORT")
}

/// The value of an option, and where it comes from.
#[derive(Clone, Debug)]
pub(crate) struct Given<T> {
    name: &'static str,
    value: T,
    source: Source,
}

/// Where a value comes from. The earlier source overrides the later ones.
#[derive(Clone, Debug)]
enum Source {
    CommandLine,
    Environment,
    /// This variable, which other servers and platforms know.
    Common(&'static str),
    /// This file.
    File(String),
    Default,
}

impl<T> Deref for Given<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: OptionValue> Given<T> {
    /// Takes the value from the first source that has one.
    ///
    /// # Errors
    /// The value in the file is bad, or that of a common variable.
    pub(crate) fn take(
        name: &'static str,
        default: Default,
        line: &ArgMatches,
        file: &mut FileOptions<'_>,
    ) -> Result<Self, Failure> {
        let given = |value, source| Ok(Given { name, value, source });
        // Also if a later source overrides it, a bad value in the file is an error.
        let in_file = file.take::<T>(name);
        let in_file = in_file.map_err(|e| Failure::usage(format!("{}:{e}", file.path())))?;
        if line.try_get_one::<bool>(&no(name)).is_ok_and(|off| off == Some(&true)) {
            return given(preset("false"), Source::CommandLine);
        }
        if let Some(value) = line.get_many::<T>(name).and_then(|all| all.cloned().reduce(T::and)) {
            let is_variable = line.value_source(name) == Some(ValueSource::EnvVariable);
            let source = if is_variable { Source::Environment } else { Source::CommandLine };
            return given(value, source);
        }
        if let Some(variable) = common_variable(name)
            && let Some(text) = std::env::var_os(variable).filter(|text| !text.is_empty())
        {
            let value = T::of_text(&text.to_string_lossy()).map_err(|e| {
                let text = text.display();
                Failure::usage(format!("bad value {text} of the variable {variable}: it {e}."))
            })?;
            return given(value, Source::Common(variable));
        }
        match (in_file, default) {
            (Some(value), _) => given(value, Source::File(file.path().into())),
            (None, Default::Is(text)) => given(preset(text), Source::Default),
            (None, Default::By(_) | Default::None) => {
                let absent = T::absent().expect("an option without a default has an optional type");
                given(absent, Source::Default)
            }
        }
    }

    /// Returns whether the operator has set this option: by its own name, and not by a variable that others know, too.
    pub(crate) fn is_set(&self) -> bool {
        !matches!(self.source, Source::Common(_) | Source::Default)
    }

    /// Returns whether the value is on the command line or in the environment.
    pub(crate) fn is_on_line(&self) -> bool {
        matches!(self.source, Source::CommandLine | Source::Environment)
    }
}

fn preset<T: OptionValue>(text: &str) -> T {
    T::of_text(text).expect("the table has valid values")
}

impl<T> Given<Option<T>> {
    /// Forgets a value of the file.
    pub(crate) fn ignore_file(&mut self) {
        if matches!(self.source, Source::File(_)) {
            (self.value, self.source) = (None, Source::Default);
        }
    }
}

impl<T> Given<T> {
    /// Returns the option and its value as the user wrote them, and the file if they come from there.
    pub(crate) fn as_given(&self, value: impl fmt::Display) -> String {
        let name = self.name;
        match &self.source {
            Source::CommandLine => format!("{} {value}", self.option()),
            Source::Environment => format!("{}={value}", variable(name)),
            Source::Common(variable) => format!("{variable}={value}"),
            Source::File(path) => format!("{name} = {value} in {path}"),
            Source::Default => format!("{} {value} (the default)", self.option()),
        }
    }

    /// Returns the option's name on the command line.
    pub(crate) fn option(&self) -> String {
        format!("--{}", self.name.replace('_', "-"))
    }
}

/// Defines the options: the struct with their values, and the table.
macro_rules! options {
    ($($scope:ident $heading:ident {
        $($name:ident $($short:literal)? : $type:ty = $default:ident $(($text:literal))?, $value:literal, $help:literal
            $(, no $no:literal)?;)+
    })+) => {
        /// The values of all options.
        #[derive(Clone, Debug)]
        pub(crate) struct Options {
            $($(pub(crate) $name: Given<$type>,)+)+
        }

        /// All options, in the order of the help.
        pub(crate) static TABLE: &[Row] = &[
            $($(Row {
                name: stringify!($name),
                short: options!(@first $($short)?),
                value: $value,
                scope: Scope::$scope,
                heading: Heading::$heading,
                default: Default::$default $(($text))?,
                help: $help,
                no: options!(@first $($no)?),
                is_switch: <$type as OptionValue>::IS_SWITCH,
                is_list: <$type as OptionValue>::IS_LIST,
                parser: <$type as OptionValue>::parser,
            },)+)+
        ];

        impl Options {
            /// Takes each option from the first source that has it.
            ///
            /// # Errors
            /// A value in the file is bad.
            pub(crate) fn take(line: &ArgMatches, file: &mut FileOptions<'_>) -> Result<Options, Failure> {
                Ok(Options {
                    $($($name: Given::take(stringify!($name), Default::$default $(($text))?, line, file)?,)+)+
                })
            }
        }
    };
    (@first) => { None };
    (@first $one:literal) => { Some($one) };
}
pub(crate) use options;
