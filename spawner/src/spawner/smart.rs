//! Smart spawning: processes that a preloader forks.
//!
//! Each failure of the preloader ends in a process that starts directly, so that no request depends on it.

use super::application::{Application, Role, Started, Starting, broken};
use super::boot::{nonblocking, shut_down_on_cancel};
use super::keys::OF_ONE_PROCESS;
use crate::boot_error::BootError;
use crate::handshake::{self, Refusal};
use crate::held_socket::HeldSocket;
use crate::preloader::{self, Preloader};
use cabrank::application_pool::SpawnRequest;
use std::io;
use std::sync::Arc;
use std::time::Instant;

impl Application {
    /// Forks a process from the preloader, which this function starts if necessary. `None`: the process
    /// starts directly.
    pub(super) fn fork(&self, request: &SpawnRequest) -> Option<Started> {
        let preloading = self.preloading.as_ref()?;
        // A crashed preloader is replaced once.
        for _ in 0..2 {
            let (found, version) = preloading.take()?;
            let preloader = match found.map_or_else(|| self.preload(version, request), Ok) {
                Ok(preloader) => preloader,
                Err(_) if request.cancel().is_cancelled() => return None,
                Err(e) => {
                    tracing::warn!("the application cannot be preloaded: {e} Starting directly.");
                    preloading.failed(version);
                    return None;
                }
            };
            let pid = preloader.pid();
            match self.fork_from(&preloader, request) {
                Ok(starting) => {
                    preloading.put_back(preloader);
                    return Some(starting);
                }
                Err(why) => {
                    tracing::warn!(pid, "preloader {pid} has forked no process: {why}");
                    preloader.kill();
                }
            }
            if request.cancel().is_cancelled() {
                return None;
            }
        }
        tracing::warn!("two preloaders have forked no process. Starting directly.");
        None
    }

    fn fork_from(&self, preloader: &Preloader, request: &SpawnRequest) -> Result<Started, String> {
        let text = |e: io::Error| e.to_string();
        let control = Arc::new(preloader.connect().map_err(text)?);
        shut_down_on_cancel(request, &control);
        let (stderr, theirs) = io::pipe().map_err(text)?;
        let pid = preloader::fork(&control, theirs.into())?;
        let child = self
            .shared
            .children
            .adopt(pid, self.uid())
            .map_err(|e| format!("process {pid}: {e}"))?;
        let pipes = [("stderr", Some(stderr.into())), ("stdout", None)];
        let starting = self.forward(child, pipes).map_err(|e| e.to_string())?;
        Ok((Starting { control: Some(Arc::clone(&control)), ..starting }, control))
    }

    /// Starts a preloader, and waits until it has loaded the application.
    fn preload(&self, version: u64, request: &SpawnRequest) -> Result<Preloader, BootError> {
        let deadline = Instant::now() + self.options.start_timeout;
        let (starting, control) = self.start(Role::Preloader)?;
        shut_down_on_cancel(request, &control);
        let mut keys = self.keys("");
        keys.retain(|(name, _)| !OF_ONE_PROCESS.contains(name));
        let answer = handshake::perform(&control, &keys, deadline, |line| {
            starting.output.line("stdout", line);
        });
        let uid = self.uid();
        let checked = answer.and_then(|(ready, rest)| {
            let no_socket = || Refusal::Protocol("the preloader named no socket".into());
            let path = ready.commands.ok_or_else(no_socket)?;
            let held = HeldSocket::open(&path, uid, &self.shared.instance.backends_of(&path))
                .map_err(Refusal::Protocol)?;
            // A killed preloader would leave the file behind. The socket stays reachable.
            held.remove();
            Ok((held, rest))
        });
        let (socket, rest) = match checked {
            Ok(both) => both,
            Err(refusal) => {
                let cancelled = request.cancel().is_cancelled();
                return Err(self.boot_failed(starting, refusal, cancelled));
            }
        };
        let _in_runtime = self.shared.runtime.enter();
        let (stdout, control) = match nonblocking(&control) {
            Ok(control) => control.into_split(),
            Err(e) => return Err(self.boot_failed(starting, Refusal::Io(e.to_string()), false)),
        };
        let Starting { child, output, .. } = starting;
        output.ready();
        let pid = child.id();
        self.shared.runtime.spawn(async move { output.forward("stdout", stdout, rest).await });
        let children = Arc::clone(&self.shared.children);
        let preloader =
            Preloader::new(child, version, socket, control, children, &self.shared.runtime)
                .map_err(broken)?;
        tracing::info!(pid, "preloader {pid} has loaded the application");
        Ok(preloader)
    }
}
