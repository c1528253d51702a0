//! The error of a process that has not become ready.

use super::application::{Application, Starting};
use crate::boot_error::BootError;
use crate::children::AppChild;
use crate::handshake::Refusal;
use crate::lifeline;
use crate::output::BootLog;
use crate::prepare;
use crate::seen;
use rustix::process::Signal;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// The longest wait for the rest of the output of a process that failed to boot.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(2);

impl Application {
    /// Collects the rest of the output of a process that failed to boot, ends it, and returns the error.
    pub(super) fn boot_failed(
        &self,
        starting: Starting,
        refusal: Refusal,
        cancelled: bool,
    ) -> BootError {
        let doing = (refusal == Refusal::TimedOut && !cancelled).then(|| {
            seen::doing(
                starting.child.id(),
                &starting.output.kept(),
                self.options.app.interpreter(),
            )
        });
        let Starting { child, control, output, output_ended, number: _number } = starting;
        let died_by_itself = matches!(refusal, Refusal::HungUp | Refusal::Error { .. });
        // Children of a shell that has ended may hold its output open.
        if cancelled || !died_by_itself || control.is_none() {
            child.leader().signal_group(Signal::KILL);
        }
        if !cancelled {
            let ended = output_ended.into_inner().unwrap_or_else(PoisonError::into_inner);
            let _: Result<(), _> = ended.recv_timeout(OUTPUT_TIMEOUT);
        }
        drop(control);
        let status = self.end(child, died_by_itself && !cancelled);
        let mut error = BootError::plain(match &refusal {
            _ if cancelled => "the spawn was cancelled.".to_owned(),
            Refusal::TimedOut => format!(
                "the application did not become ready within {} s: {}",
                self.options.start_timeout.as_secs_f64(),
                doing.unwrap_or_default()
            ),
            Refusal::HungUp => {
                format!("the application exited before it was ready ({status}).")
            }
            Refusal::Error { .. } => "the application failed to boot.".to_owned(),
            Refusal::Unready(why) => why.clone(),
            Refusal::Protocol(why) => format!("the loader broke the handshake protocol: {why}."),
            Refusal::Io(why) => format!("the channel to the loader failed: {why}."),
        });
        if let Refusal::Error { text, .. } = &refusal
            && let Some(why) = text.strip_prefix(prepare::FAILED)
        {
            return self.cannot_start(why);
        }
        if let Refusal::Error { html, text } = refusal {
            (error.html, error.message) = (html, text);
        }
        let log;
        (error.output, log) = output.failed();
        self.explain(&mut error);
        let last = self.last_failure().replace(error.to_string());
        if last != Some(error.to_string()) {
            if log == BootLog::Held {
                output.log_lines("boot", &error.output);
            }
            output.log_error(&error.message);
        }
        error
    }

    /// Returns the error of a process that could not execute the interpreter.
    pub(super) fn cannot_start(&self, why: &str) -> BootError {
        let remedy = match self.options.app.interpreter() {
            _ if why.starts_with(prepare::NO_ENTRY) => {
                let user = self.user_name();
                format!(" Restore it and let the user {user} enter it, or stop this server.")
            }
            _ if why.starts_with(prepare::NO_VARIABLES) => {
                let user = self.user_name();
                format!(" Correct the file, let the user {user} read it, or correct --env-file.")
            }
            Some(_) if why.contains("Permission denied") => format!(
                " Let the user {} execute it: that user needs access to the directories above it, too. In a virtual \
                 environment, it is a link to another interpreter, to which the same applies.",
                self.user_name()
            ),
            Some(interpreter) => {
                format!(" Install the interpreter, or name another with {}.", interpreter.option())
            }
            None => format!(
                " Correct the program in the definition of the type {}.",
                self.options.app.type_name
            ),
        };
        let mut error = BootError::plain(format!("{why}.{remedy}"));
        self.explain(&mut error);
        error
    }

    /// Reaps the child and describes its exit status.
    ///
    /// A child that has hung up is about to exit. The function waits a moment, so that the status is the
    /// child's own and not that of a kill.
    fn end(&self, child: AppChild, is_leaving: bool) -> String {
        let deadline = Instant::now() + Duration::from_millis(500);
        while is_leaving && Instant::now() < deadline && !child.leader().has_ended() {
            std::thread::sleep(Duration::from_millis(5));
        }
        lifeline::described(self.shared.children.reap(child))
    }
}
