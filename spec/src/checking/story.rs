//! Tells a counterexample as a story: each step as a sentence, with the state drawn after it.

use crate::checking::check::{DEADLOCK, check_only};
use crate::checking::machine::Counterexample;
use crate::checking::promises::Promises;

/// Returns the story of a counterexample.
pub fn story<M: Promises>(machine: &M, counterexample: &Counterexample<M::Action>) -> String {
    let mut story = machine.opening() + "\n";
    let mut state = machine.initial();
    let mut tell = |story: &mut String, number: &str, action: &M::Action| {
        let action = machine.in_story(&state, action);
        let next = machine.step(&state, &action);
        let sentence = machine.sentence(&state, &action, &next);
        *story += &format!("{number} {sentence}\n{}\n", machine.draw(&next));
        state = next;
    };
    for (number, action) in (1..).zip(&counterexample.actions) {
        tell(&mut story, &format!("{number}."), action);
    }
    if !counterexample.for_ever.is_empty() {
        story += "From here on these actions repeat for ever:\n\n";
    } else if M::liveness(counterexample.what).is_some() {
        story += "From here on no further action is required.\n\n";
    }
    for action in &counterexample.for_ever {
        tell(&mut story, "*", action);
    }
    story + &machine.remark(&state) + "=> " + &verdict::<M>(counterexample.what) + "\n"
}

/// Returns the last line of a story: the broken property, with its sentence.
pub fn verdict<M: Promises>(what: &str) -> String {
    match M::says(what) {
        Some(says) => format!("{what} does not hold: {says}."),
        None => format!("{DEADLOCK}: {}.", M::DEADLOCK),
    }
}

/// Returns the story of the shortest way to break a property, or the number of states in all of which it holds.
pub fn story_of<M: Promises>(machine: &M, breaks: &str) -> String {
    match check_only(machine, breaks) {
        Err(counterexample) => story(machine, &counterexample),
        Ok(report) => {
            let states = report.states;
            format!("{breaks} holds in all {states} states: there is no counterexample.\n")
        }
    }
}
