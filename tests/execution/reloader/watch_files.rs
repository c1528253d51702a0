//! Files that are watched: added, removed, and edited, also within one granule of their times.

use crate::common::log::Log;
use cabrank::execution::{Executor, Interlock, Reloader};
use std::fs::{self, File, FileTimes};
use std::path::PathBuf;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::{Duration, SystemTime};

/// A directory that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("cabrank-watch-{}-{}", process::id(), NEXT.fetch_add(1, SeqCst));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("the temporary folder is writable");
        Folder(path)
    }
    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
    fn write(&self, name: &str, text: &str) {
        fs::write(self.at(name), text).expect("it is writable");
    }
    /// Writes a file whose time is `age` ago.
    fn write_aged(&self, name: &str, text: &str, age: Duration) {
        self.write(name, text);
        self.stamp(name, SystemTime::now() - age);
    }
    fn stamp(&self, name: &str, time: SystemTime) {
        let file = File::options().write(true).open(self.at(name)).expect("it is there");
        file.set_times(FileTimes::new().set_modified(time)).expect("it is ours");
    }
}
impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns a function that runs an execution, and says whether that has reloaded.
fn reloads(paths: Vec<PathBuf>) -> impl Fn() -> bool + Send {
    let log = Log::default();
    let unload = log.noting("unload");
    let reloader = Reloader::builder(Executor::builder().interlock(Interlock::new()).build())
        .watch_files(paths)
        .unload(move |_| unload())
        .build()
        .expect("valid");
    move || {
        reloader.wrap(|_| Ok(())).expect("it runs");
        !log.take().is_empty()
    }
}

#[test]
fn a_file_that_is_edited_added_or_removed_is_a_change() {
    let folder = Folder::new();
    folder.write("a", "one");
    let reloads = reloads(vec![folder.at("a"), folder.at("b")]);
    assert!(!reloads());
    folder.write("a", "another length");
    assert!(reloads() && !reloads());
    folder.write("b", "it was missing");
    assert!(reloads() && !reloads());
    fs::remove_file(folder.at("a")).expect("it is there");
    assert!(reloads() && !reloads());
    folder.write("a", "it is back");
    assert!(reloads() && !reloads());
}

/// All edits have the same length, and the same time of modification.
#[test]
fn no_edit_in_the_granule_of_the_last_look_is_lost() {
    let folder = Folder::new();
    let time = SystemTime::now();
    folder.write("a", "000");
    folder.stamp("a", time);
    let reloads = reloads(vec![folder.at("a")]);
    for edit in 1..200 {
        folder.write("a", &format!("{edit:03}"));
        folder.stamp("a", time);
        assert!(reloads(), "edit {edit} was lost");
    }
    assert!(!reloads());
}

/// The clock of a network's file system may be ahead. The contents count until the time has come.
#[test]
fn no_edit_of_a_file_with_a_time_in_the_future_is_lost() {
    let folder = Folder::new();
    let time = SystemTime::now() + Duration::from_secs(3600);
    folder.write("a", "one");
    folder.stamp("a", time);
    let reloads = reloads(vec![folder.at("a")]);
    for text in ["two", "six", "ten"] {
        folder.write("a", text);
        folder.stamp("a", time);
        assert!(reloads() && !reloads());
    }
}

/// An edit that keeps the old time of modification: `cp -p`, or an archive.
#[test]
fn an_edit_that_sets_the_time_back_is_a_change() {
    let folder = Folder::new();
    let age = Duration::from_secs(3600);
    folder.write_aged("a", "one", age);
    let reloads = reloads(vec![folder.at("a")]);
    assert!(!reloads());
    folder.write_aged("a", "two", 2 * age);
    assert!(reloads() && !reloads());
    folder.write("b", "six");
    folder.stamp("b", fs::metadata(folder.at("a")).and_then(|a| a.modified()).expect("its time"));
    fs::rename(folder.at("b"), folder.at("a")).expect("it is ours");
    assert!(reloads() && !reloads());
}

#[test]
fn a_folder_stands_for_the_files_below_it() {
    let folder = Folder::new();
    fs::create_dir_all(folder.at("views/mail")).expect("it is writable");
    folder.write("views/index.html", "one");
    let reloads = reloads(vec![folder.at("views")]);
    assert!(!reloads());
    folder.write("views/mail/hello.txt", "two");
    assert!(reloads() && !reloads());
    folder.write("views/mail/hello.txt", "ten");
    assert!(reloads() && !reloads());
    folder.write("elsewhere", "six");
    assert!(!reloads());
    fs::remove_dir_all(folder.at("views/mail")).expect("it is there");
    assert!(reloads() && !reloads());
}

/// The edit may be loaded by this reload or by the next one, and by one of them it is.
#[test]
fn an_edit_during_a_reload_is_left_to_the_next() {
    let folder = Folder::new();
    folder.write("a", "one");
    let (file, log) = (folder.at("a"), Log::default());
    let (edited, unload) = (file.clone(), log.noting("unload"));
    let edits = AtomicU32::new(0);
    let reloader = Reloader::builder(Executor::builder().interlock(Interlock::new()).build())
        .watch_files([&file])
        .unload(move |_| {
            if edits.fetch_add(1, SeqCst) == 0 {
                fs::write(&edited, "six")?;
            }
            unload()
        })
        .build()
        .expect("valid");
    folder.write("a", "two");
    for expected in [1, 1, 0] {
        reloader.wrap(|_| Ok(())).expect("it runs");
        assert_eq!(log.take().len(), expected);
    }
}

/// A link to a file stands for that file. An edit there, another target and a broken link are changes.
#[cfg(unix)]
#[test]
fn a_linked_file_is_watched_where_it_leads() {
    use std::os::unix::fs::symlink;
    let folder = Folder::new();
    folder.write("one", "1");
    folder.write("other", "the other one");
    fs::create_dir_all(folder.at("views")).expect("it is writable");
    symlink(folder.at("one"), folder.at("views/link")).expect("a link");
    for paths in [vec![folder.at("views")], vec![folder.at("views/link")]] {
        let reloads = reloads(paths);
        assert!(!reloads());
        folder.write("one", "another length");
        assert!(reloads() && !reloads());
        fs::remove_file(folder.at("views/link")).expect("it is there");
        symlink(folder.at("other"), folder.at("views/link")).expect("a link");
        assert!(reloads() && !reloads());
        fs::remove_file(folder.at("other")).expect("it is there");
        assert!(reloads() && !reloads());
        folder.write("other", "it is back");
        assert!(reloads() && !reloads());
        fs::remove_file(folder.at("views/link")).expect("it is there");
        symlink(folder.at("one"), folder.at("views/link")).expect("a link");
    }
}

/// Two links that lead back would double the files at each level, so that a look would never end. A path that is
/// itself a link to a directory is followed.
#[cfg(unix)]
#[test]
fn links_to_directories_are_followed_at_the_top_only() {
    use std::os::unix::fs::symlink;
    let folder = Folder::new();
    fs::create_dir_all(folder.at("views")).expect("it is writable");
    folder.write("views/index", "1");
    for link in ["views/back", "views/again", "top"] {
        symlink(folder.at("views"), folder.at(link)).expect("a link");
    }
    let paths = vec![folder.at("top")];
    let reloads = crate::common::soon(move || {
        let reloads = reloads(paths);
        assert!(!reloads());
        reloads
    });
    folder.write("views/index", "another length");
    assert!(reloads() && !reloads());
}
