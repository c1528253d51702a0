//! Rules as switches: the defects and planted faults of a machine.
//!
//! A *defect* is an error of the system that a machine is modelled on. A *planted* fault is an error that
//! the checks must notice. `switches!` makes an enumeration of either kind, and a machine's [`Rules`] are
//! the set of those it has. In the machine's source each is visible: `if self.original(UpgradeDeadlock)`.

use std::fmt::Debug;
use std::marker::PhantomData;

/// One of an enumeration of switches.
pub trait Switch: Copy {
    /// Returns the index in the enumeration.
    fn place(self) -> u32;
}

/// Returns the name of a switch on the command line: `UpgradeDeadlock` of `rails` is `rails-upgrade-deadlock`.
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

/// Makes an enumeration of switches, each with the error and the correct rule.
macro_rules! switches {
    ($(#[$about:meta])* $of:ident: $($name:ident $is:literal $instead:literal;)*) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $of {
            $(#[doc = concat!($is, ". ", $instead, ".")] $name,)*
        }

        impl $of {
            /// All switches, in order.
            pub const ALL: &[$of] = &[$($of::$name),*];

            /// Returns the error.
            pub fn is(self) -> &'static str {
                match self { $($of::$name => $is),* }
            }
            /// Returns the correct rule.
            pub fn instead(self) -> &'static str {
                match self { $($of::$name => $instead),* }
            }
        }

        impl $crate::checking::switches::Switch for $of {
            fn place(self) -> u32 {
                self as u32
            }
        }
    };
}
pub(crate) use switches;

/// The set of defects and planted faults that a machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rules<D, P> {
    defects: u64,
    planted: u64,
    of: PhantomData<(D, P)>,
}

impl<D: Switch, P: Switch> Rules<D, P> {
    /// No defect and no fault.
    pub const AS_MENDED: Self = Rules { defects: 0, planted: 0, of: PhantomData };
    /// Every defect of the modelled system.
    pub const ORIGINAL: Self = Rules { defects: u64::MAX, planted: 0, of: PhantomData };

    /// Returns these rules with this defect.
    pub fn but(self, defect: D) -> Self {
        Rules { defects: self.defects | 1 << defect.place(), ..self }
    }
    /// Returns these rules with this fault.
    pub fn with(self, planted: P) -> Self {
        Rules { planted: self.planted | 1 << planted.place(), ..self }
    }
    /// Returns whether the machine has this defect.
    pub fn original(self, defect: D) -> bool {
        self.defects & (1 << defect.place()) != 0
    }
    /// Returns whether the machine has this fault.
    pub fn has(self, planted: P) -> bool {
        self.planted & (1 << planted.place()) != 0
    }
}
