//! The promises of a machine: invariants of states, properties of steps, and what comes about in the end.
//!
//! A machine states them in three tables, by the macros `invariants!`, `step_properties!` and `liveness!`. Each row has a
//! name and a sentence, which have no other home. [`Promises`] joins the tables with the words for a story.

use crate::checking::machine::Machine;

/// An invariant, which holds in every state.
pub struct Invariant<M: Machine> {
    /// Its name, `INV-…`.
    pub name: &'static str,
    /// The sentence that it states.
    pub says: &'static str,
    /// Returns whether it holds.
    pub holds: fn(&M, &M::State) -> bool,
}

/// Judges one step: the machine, the state before, the action, and the state after.
pub type Judge<M> =
    fn(&M, &<M as Machine>::State, &<M as Machine>::Action, &<M as Machine>::State) -> Option<bool>;

/// A property of every step.
pub struct StepProperty<M: Machine> {
    /// Its name, `PROP-…`.
    pub name: &'static str,
    /// The sentence that it states.
    pub says: &'static str,
    /// Returns whether a step from the first state to the second keeps it, or `None` if it does not apply to this
    /// step. The tests check that every property applies somewhere: otherwise it would hold whatever the machine does.
    pub judge: Judge<M>,
}

/// A property that comes about in the end, for each of its subjects, such as each client or each key.
pub struct Liveness<M: Machine> {
    /// Its name, `PROP-…`.
    pub name: &'static str,
    /// The sentence that it states.
    pub says: &'static str,
    /// Its assumptions beside fairness ([`Promises::kind_and_class`]), in words.
    pub assumes: &'static str,
    /// Whether it is promised. Otherwise it is known to fail, and the machine's test shows where.
    pub promised: bool,
    /// Returns whether this machine has what the property assumes.
    pub applies: fn(&M) -> bool,
    /// The kinds of actions that may go on for ever, one bit each.
    pub may: u64,
    /// Returns whether a class of actions is fair: taken in the end if it stays possible.
    pub fair: fn(u8) -> bool,
    /// Returns the number of its subjects, at most [`SUBJECTS`].
    pub subjects: fn(&M) -> usize,
    /// Returns whether it has not come about yet for a subject.
    pub not_yet: fn(&M, &M::State, usize) -> bool,
}

// A derived `Copy` would need a machine that is `Copy`.
impl<M: Machine> Copy for Liveness<M> {}
impl<M: Machine> Clone for Liveness<M> {
    fn clone(&self) -> Self {
        *self
    }
}

/// The most subjects that a liveness property may have. Each has one bit in a state's marks.
pub const SUBJECTS: usize = 8;

/// Makes the table of a machine's invariants: name, sentence, formula.
macro_rules! invariants {
    ($of:ty: $($name:literal $says:literal $holds:expr;)*) => {
        /// The invariants, which hold in every state.
        ///
        $(#[doc = concat!("- <a id=\"", $name, "\"></a>**", $name, "**: ", $says, ".")])*
        pub const INVARIANTS: &[$crate::checking::promises::Invariant<$of>] =
            &[$($crate::checking::promises::Invariant { name: $name, says: $says, holds: $holds }),*];
    };
}

/// Makes the table of a machine's properties of steps: name, sentence, judge.
macro_rules! step_properties {
    ($of:ty: $($name:literal $says:literal $judge:expr;)*) => {
        /// The properties that every step keeps.
        ///
        $(#[doc = concat!("- <a id=\"", $name, "\"></a>**", $name, "**: ", $says, ".")])*
        pub const STEP_PROPERTIES: &[$crate::checking::promises::StepProperty<$of>] =
            &[$($crate::checking::promises::StepProperty { name: $name, says: $says, judge: $judge }),*];
    };
}

/// Makes the table of a machine's properties of the end: name, sentence, assumptions, and what they mean.
macro_rules! liveness {
    ($of:ty: $($name:literal $says:literal assumes $assumes:literal
       promised $promised:literal; applies $applies:expr; may $may:expr; fair $fair:expr;
       subjects $subjects:expr; not_yet $not_yet:expr;)*) => {
        /// The properties that come about in the end.
        ///
        $(#[doc = concat!("- <a id=\"", $name, "\"></a>**", $name, "**: ", $says, ".")])*
        pub const LIVENESS: &[$crate::checking::promises::Liveness<$of>] =
            &[$($crate::checking::promises::Liveness {
                name: $name, says: $says, assumes: $assumes, promised: $promised, applies: $applies, may: $may,
                fair: $fair, subjects: $subjects, not_yet: $not_yet,
            }),*];
    };
}
pub(crate) use {invariants, liveness, step_properties};

/// A machine with promises.
pub trait Promises: Machine + Sized {
    /// Hold in every state.
    const INVARIANTS: &'static [Invariant<Self>];
    /// Hold in every step.
    const STEP_PROPERTIES: &'static [StepProperty<Self>];
    /// Come about in the end.
    const LIVENESS: &'static [Liveness<Self>];
    /// Says why a deadlock is an error.
    const DEADLOCK: &'static str;

    /// Returns the kind of an action and its fairness class ([`UNFAIR`](crate::checking::machine::UNFAIR): none).
    fn kind_and_class(state: &Self::State, action: &Self::Action) -> (u8, u8);
    /// Describes the outcome of a final state.
    fn ending(&self, _: &Self::State) -> Option<String> {
        None
    }

    /// Returns the first lines of a story, which describe the machine.
    fn opening(&self) -> String;
    /// Returns a step in words.
    fn sentence(&self, before: &Self::State, action: &Self::Action, after: &Self::State) -> String;
    /// Draws a state, in lines.
    fn draw(&self, state: &Self::State) -> String;
    /// Says what the last state of a story shows, in lines.
    fn remark(&self, _: &Self::State) -> String {
        String::new()
    }
    /// Returns the action that a story takes in a state, for one that the search took in its normal form. They differ if
    /// the normal form gives new names.
    fn in_story(&self, _: &Self::State, action: &Self::Action) -> Self::Action {
        action.clone()
    }

    /// Returns the name and the sentence of each promise.
    fn promises() -> impl Iterator<Item = (&'static str, &'static str)> {
        let states = Self::INVARIANTS.iter().map(|p| (p.name, p.says));
        let steps = Self::STEP_PROPERTIES.iter().map(|p| (p.name, p.says));
        let ends = Self::LIVENESS.iter().filter(|p| p.promised).map(|p| (p.name, p.says));
        states.chain(steps).chain(ends)
    }
    /// Returns the sentence of a property, promised or not.
    fn says(name: &str) -> Option<&'static str> {
        let known = Self::LIVENESS.iter().map(|p| (p.name, p.says));
        Self::promises().chain(known).find(|(other, _)| *other == name).map(|(_, says)| says)
    }
    /// Finds a property of the end by its name.
    fn liveness(name: &str) -> Option<&'static Liveness<Self>> {
        Self::LIVENESS.iter().find(|property| property.name == name)
    }
    /// Returns the names of the invariants that do not hold.
    fn broken(&self, state: &Self::State) -> Vec<&'static str> {
        let broken = Self::INVARIANTS.iter().filter(|i| !(i.holds)(self, state));
        broken.map(|invariant| invariant.name).collect()
    }
}
