//! Rules as switches: the defects and planted faults of a machine.
//!
//! A *defect* is an error of the system that a machine is modelled on, such as an erratum of the pseudocode. A *planted*
//! fault is an error that the checks must notice. `switches!` makes an enumeration of either kind, and a machine's
//! [`Rules`] are the set of those it has. In the machine's source each is visible: `if self.original(UpgradeDeadlock)`.

use std::convert::Infallible;
use std::fmt::Debug;
use std::marker::PhantomData;

/// One of an enumeration of switches.
pub trait Switch: Copy + Debug + 'static {
    /// All switches, in order.
    const ALL: &'static [Self];

    /// Returns the index in the enumeration.
    fn place(self) -> u32;
    /// Returns the error.
    fn is(self) -> &'static str;
    /// Returns the correct rule.
    fn instead(self) -> &'static str;
}

/// Makes an enumeration of switches, each with the error and the correct rule.
macro_rules! switches {
    ($(#[$about:meta])* $of:ident: $($name:ident $is:literal $instead:literal;)*) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $of {
            $(#[doc = concat!("The error: ", $is, ". Instead: ", $instead, ".")] $name,)*
        }

        impl $crate::checking::switches::Switch for $of {
            const ALL: &'static [$of] = &[$($of::$name),*];

            fn place(self) -> u32 {
                self as u32
            }
            fn is(self) -> &'static str {
                match self { $($of::$name => $is),* }
            }
            fn instead(self) -> &'static str {
                match self { $($of::$name => $instead),* }
            }
        }
    };
}
pub(crate) use switches;

/// The planted faults of a machine that has none.
impl Switch for Infallible {
    const ALL: &'static [Infallible] = &[];

    fn place(self) -> u32 {
        match self {}
    }
    fn is(self) -> &'static str {
        match self {}
    }
    fn instead(self) -> &'static str {
        match self {}
    }
}

/// The set of defects and planted faults that a machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rules<D, P> {
    defects: u64,
    planted: u128,
    of: PhantomData<(D, P)>,
}

impl<D: Switch, P: Switch> Rules<D, P> {
    /// No defect and no fault.
    pub const AS_MENDED: Self = Rules { defects: 0, planted: 0, of: PhantomData };
    /// Every defect of the modelled system.
    pub const ORIGINAL: Self = Rules { defects: u64::MAX, ..Self::AS_MENDED };

    /// Returns these rules with some defects.
    pub fn but(self, defects: &[D]) -> Self {
        defects.iter().fold(self, |r, d| Rules { defects: r.defects | 1 << d.place(), ..r })
    }
    /// Returns these rules without some defects.
    pub fn mended(self, defects: &[D]) -> Self {
        defects.iter().fold(self, |r, d| Rules { defects: r.defects & !(1 << d.place()), ..r })
    }
    /// Returns these rules with this fault.
    pub fn with(self, planted: P) -> Self {
        Rules { planted: self.planted | 1 << planted.place(), ..self }
    }
    /// Returns whether the machine has this defect.
    #[inline]
    pub fn original(self, defect: D) -> bool {
        self.defects & (1 << defect.place()) != 0
    }
    /// Returns whether the machine has this fault.
    #[inline]
    pub fn has(self, planted: P) -> bool {
        self.planted & (1 << planted.place()) != 0
    }
}

impl<D: Switch, P: Switch> Default for Rules<D, P> {
    fn default() -> Self {
        Self::AS_MENDED
    }
}
