//! Rules as switches: what a machine does otherwise than as mended.
//!
//! A *defect* is what an original does; a *planted* fault is nobody's rule, and there to see that somebody
//! would notice. Both are enumerations that `switches!` makes, and a machine's [`Rules`] say which of them
//! it has. In the machine's source each is visible: `if self.original(UpgradeDeadlock)`.

use std::fmt::Debug;
use std::marker::PhantomData;

/// One of an enumeration of switches.
pub trait Switch: Copy {
    /// Which one it is, counted from 0.
    fn place(self) -> u32;
}

/// The name of a switch on the command line: `UpgradeDeadlock` of `rails` is `rails-upgrade-deadlock`.
pub fn slug(origin: &str, switch: impl Debug) -> String {
    let mut slug = String::from(origin);
    for c in format!("{switch:?}").chars() {
        if c.is_ascii_uppercase() {
            slug.push('-');
        }
        slug.push(c.to_ascii_lowercase());
    }
    slug
}

/// Makes an enumeration: each name with what is wrong, and what holds instead.
macro_rules! switches {
    ($(#[$about:meta])* $of:ident: $($name:ident $is:literal $instead:literal;)*) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $of {
            $(#[doc = concat!($is, ". ", $instead, ".")] $name,)*
        }

        impl $of {
            /// All of them, in order.
            pub const ALL: &[$of] = &[$($of::$name),*];

            /// What is wrong.
            pub fn is(self) -> &'static str {
                match self { $($of::$name => $is),* }
            }
            /// What holds instead.
            pub fn instead(self) -> &'static str {
                match self { $($of::$name => $instead),* }
            }
        }

        impl $crate::switches::Switch for $of {
            fn place(self) -> u32 {
                self as u32
            }
        }
    };
}
pub(crate) use switches;

/// Which defects and which planted faults a machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rules<D, P> {
    defects: u64,
    planted: u64,
    of: PhantomData<(D, P)>,
}

impl<D: Switch, P: Switch> Rules<D, P> {
    /// Every defect is mended.
    pub const AS_MENDED: Self = Rules { defects: 0, planted: 0, of: PhantomData };
    /// The original, with all of its defects.
    pub const ORIGINAL: Self = Rules { defects: u64::MAX, planted: 0, of: PhantomData };

    /// These rules, with this defect.
    pub fn but(self, defect: D) -> Self {
        Rules { defects: self.defects | 1 << defect.place(), ..self }
    }
    /// These rules, with this fault.
    pub fn with(self, planted: P) -> Self {
        Rules { planted: self.planted | 1 << planted.place(), ..self }
    }
    /// Whether this is as in the original.
    pub fn original(self, defect: D) -> bool {
        self.defects & (1 << defect.place()) != 0
    }
    /// Whether this fault is planted.
    pub fn has(self, planted: P) -> bool {
        self.planted & (1 << planted.place()) != 0
    }
}
