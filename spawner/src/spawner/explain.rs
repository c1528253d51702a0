//! Adds to the error of a failed boot where it happened, what to try, and how the process was started.

use super::application::Application;
use super::keys;
use crate::app_type::{Launch, Place};
use crate::boot_error::{BootError, Explanation, Frame, Setup, advise};
use crate::file_rights::with_rights_of;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

impl Application {
    /// Explains an error by its text.
    pub(super) fn explain(&self, error: &mut BootError) {
        let app = &self.options.app;
        // The user may put links on the way to its directory.
        let file_rights = self.options.user.as_ref();
        let real = with_rights_of(file_rights, || app.root.canonicalize()).unwrap_or_default();
        let roots = [app.root.as_path(), &real];
        let texts = [&error.message, &error.output];
        let user = self.user_name();
        let setup = Setup {
            root: &app.root,
            interpreter: app.interpreter(),
            program: &self.options.interpreter,
            user: &user,
            file_rights,
        };
        error.explanation = Some(Box::new(Explanation {
            frame: texts.iter().find_map(|text| Frame::innermost(text, &roots)),
            advice: texts.iter().find_map(|text| advise(text, &setup)),
            command: self.start_command(),
            directory: app.root.clone(),
            user,
            variables: self.variables(),
        }));
    }

    /// Returns the command for people.
    fn start_command(&self) -> String {
        let loader = match &self.options.app.launch {
            Launch::Loader { loader, .. } => self.shared.instance.path().join(loader.entry()),
            Launch::Custom(custom) => custom.loader.clone(),
            Launch::Command(command) => return command.text().into(),
        };
        let program =
            keys::interpreter(&self.options).map(|program| format!("{} ", program.display()));
        let app = &self.options.app;
        let options = app.script().map_or(&[][..], |script| &script.options);
        let words: String = options.iter().map(|option| format!("{option} ")).collect();
        let start = app.start_line();
        format!("{}{words}{} (for {start})", program.unwrap_or_default(), loader.display())
    }

    pub(super) fn user_name(&self) -> String {
        match &self.options.user {
            Some(user) => user.name.clone(),
            None => match nix::unistd::User::from_uid(nix::unistd::geteuid()) {
                Ok(Some(user)) => user.name,
                _ => self.uid().to_string(),
            },
        }
    }

    /// Returns the names of the environment variables of the application's processes.
    fn variables(&self) -> Vec<String> {
        let mut names: BTreeSet<_> = std::env::vars_os().map(|(name, _)| name).collect();
        for (name, value) in self.command(Path::new("")).get_envs() {
            if value.is_some() {
                names.insert(name.into());
            } else {
                names.remove(name);
            }
        }
        let set = self.options.app.script().map_or(&[][..], |script| &script.variables);
        names.extend(set.iter().map(|(name, _)| name.into()));
        if let Launch::Command(command) = &self.options.app.launch {
            names.insert(match command.place() {
                Place::Port => "PORT".into(),
                Place::Socket => "SOCKET".into(),
            });
        }
        names.iter().map(|name| PathBuf::from(name).display().to_string()).collect()
    }
}
