//! Enumerations whose variants have a text, which is also their documentation; and types that print as their name.

macro_rules! named {
    ($(#[$meta:meta])* pub enum $name:ident { $($variant:ident $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
        #[non_exhaustive]
        pub enum $name {
            $(#[doc = concat!("\u{201c}", $text, "\u{201d}.")] $variant,)*
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self { $($name::$variant => $text,)* })
            }
        }
    };
}

/// Implements `Debug` for types whose fields say nothing to a reader.
macro_rules! opaque {
    ($($name:ident $(<$life:lifetime>)?),*) => { $(
        impl std::fmt::Debug for $name $(<$life>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    )* };
}
pub(crate) use {named, opaque};
