//! The directory of an instance: made, restored and removed.

use super::*;
use std::os::unix::fs::PermissionsExt;

#[test]
fn the_directory_is_private_and_removed_with_its_owner() {
    let base = tempfile::tempdir().unwrap();
    let dir = InstanceDir::create_in("cabrank", base.path(), None).unwrap();
    let path = dir.shared().path();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    assert!(dir.shared().generation().join("backends").is_dir());
    drop(dir);
    assert!(!path.exists());
}

#[test]
fn directories_of_dead_servers_are_removed_and_those_of_living_servers_stay() {
    let base = tempfile::tempdir().unwrap();
    // Above the largest possible pid.
    let [dead, empty, alive] = ["4194304.abcdefgh", "4194305.abcdefgh", "4194306.abcdefgh"]
        .map(|rest| base.path().join(format!("cabrank.{rest}")));
    let foreign =
        ["4194304.abcdefg", "4194304.abcdefgh.x", "4194304.abcdef-h", "20261127", "x.abcdefgh"]
            .map(|rest| base.path().join(format!("cabrank.{rest}")));
    let unlike = base.path().join("cabrank.4194307.abcdefgh");
    for dir in [&dead, &alive].into_iter().chain(&foreign) {
        std::fs::create_dir_all(generation(dir)).unwrap();
    }
    std::fs::create_dir(&empty).unwrap();
    std::fs::create_dir_all(unlike.join("data")).unwrap();
    let held = crate::backends::open_dir(&alive).unwrap();
    lock_open(&held).unwrap();
    let _dir = InstanceDir::create_in("cabrank", base.path(), None).unwrap();
    stale::remove("cabrank", &Base::open(base.path()).unwrap());
    assert!(!dead.exists() && !empty.exists() && alive.exists() && unlike.exists());
    assert!(foreign.iter().all(|dir| dir.exists()));
    drop(held);
}

/// The other start takes each directory without a lock for stale: the pid of its own process names no other server.
#[test]
fn a_start_that_meets_another_between_directory_and_lock_creates_another_directory() {
    let base = tempfile::tempdir().unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let base = Base::open(base.path()).unwrap();
            while !is_done.load(Ordering::Relaxed) {
                stale::remove("cabrank", &base);
            }
        });
        let made: Result<Vec<_>, _> = (0..500)
            .map(|_| InstanceDir::create_in("cabrank", base.path(), None).map(drop))
            .collect();
        is_done.store(true, Ordering::Relaxed);
        made.expect("each start creates a directory");
    });
}

#[test]
fn a_path_too_long_for_sockets_is_an_error_with_a_remedy() {
    let base = tempfile::tempdir().unwrap();
    let long = base.path().join("x".repeat(90));
    std::fs::create_dir(&long).unwrap();
    let failure = InstanceDir::create_in("cabrank", &long, None).unwrap_err();
    assert!(failure.message().contains("XDG_RUNTIME_DIR"));
}

/// Writes one file from many threads at once. Each reads it when its own call has returned.
#[test]
fn an_installed_file_is_never_incomplete() {
    let base = tempfile::tempdir().unwrap();
    let dir = InstanceDir::create_in("cabrank", base.path(), None).unwrap();
    let (shared, text) = (dir.shared(), "x".repeat(1 << 24));
    for round in 0..5 {
        let name = format!("loader.{round}");
        let all = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    all.wait();
                    shared.install(&name, &text).unwrap();
                    assert_eq!(std::fs::read(shared.path().join(&name)).unwrap().len(), text.len());
                });
            }
        });
    }
    let files = std::fs::read_dir(shared.path()).unwrap().filter_map(Result::ok);
    assert_eq!(files.filter(|f| f.file_type().unwrap().is_file()).count(), 5);
    let long = "x".repeat(300); // longer than a name may be
    assert!(shared.install(&long, "").is_err());
}

#[test]
fn a_buffer_is_private_and_has_no_name() {
    let base = tempfile::tempdir().unwrap();
    let dir = InstanceDir::create_in("cabrank", base.path(), None).unwrap();
    let buffered = dir.shared().buffered();
    for _ in 0..2 {
        let file = dir.shared().buffer().unwrap();
        let mode = |of: std::fs::Metadata| of.permissions().mode() & 0o777;
        assert_eq!(mode(file.metadata().unwrap()), 0o600);
        assert_eq!(mode(buffered.metadata().unwrap()), 0o700);
        // Empty, so that it can be removed. The next buffer makes it again.
        std::fs::remove_dir(&buffered).unwrap();
    }
}

#[test]
fn nothing_is_written_or_found_where_a_vanished_directory_was() {
    let base = tempfile::tempdir().unwrap();
    let dir = InstanceDir::create_in("cabrank", base.path(), None).unwrap();
    let shared = dir.shared();
    let (first, old) = (shared.path(), shared.backends().path().to_owned());
    std::fs::remove_dir_all(&first).unwrap();
    std::fs::create_dir_all(&old).unwrap(); // another user's
    std::fs::create_dir(first.join(BUFFERED)).unwrap();
    let names = |path: &Path| std::fs::read_dir(path).unwrap().count();
    assert!(shared.install("loader", "").is_err());
    assert!(shared.buffer().is_err());
    assert_eq!((names(&first), names(&first.join(BUFFERED))), (2, 0));
    let socket = old.join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    for _ in 0..2 {
        let backends = shared.backends_of(&socket);
        assert!(backends.open_path(backends.name_in(&socket).unwrap()).is_err());
        shared.restore().unwrap();
    }
    shared.buffer().unwrap();
}

#[test]
fn names_differ_between_servers_of_one_pid() {
    let base = tempfile::tempdir().unwrap();
    let [one, other] =
        [(); 2].map(|()| InstanceDir::create_in("cabrank", base.path(), None).unwrap());
    assert_ne!(one.shared().path(), other.shared().path());
}

#[test]
fn a_directory_that_vanished_is_replaced_until_the_server_removes_it() {
    let base = tempfile::tempdir().unwrap();
    let dir = InstanceDir::create_in("cabrank", base.path(), None).unwrap();
    let shared = dir.shared();
    let first = shared.path();
    assert_eq!(shared.restore().unwrap(), Restored::Intact);
    std::fs::remove_dir(shared.generation().join("backends")).unwrap();
    assert_eq!(shared.restore().unwrap(), Restored::Intact);
    assert!(shared.generation().join("backends").is_dir());
    std::fs::remove_dir_all(&first).unwrap();
    std::fs::write(&first, "another file of that name").unwrap();
    assert_eq!(shared.restore().unwrap(), Restored::Instead(first.clone()));
    assert!(shared.path() != first && shared.generation().join("backends").is_dir());
    // The removal takes all that the upkeep makes in the directory.
    let second = shared.path();
    std::thread::scope(|scope| {
        let upkeep = shared.upkeep();
        assert_eq!(upkeep.restore().unwrap(), Restored::Intact);
        let removal = scope.spawn(|| dir.remove());
        std::fs::write(second.join("admin"), "").unwrap();
        assert!(!removal.is_finished());
        // Requests read the place meanwhile.
        assert_eq!(shared.buffered(), second.join(BUFFERED));
        drop(upkeep);
    });
    assert_eq!(shared.restore().unwrap(), Restored::Removed);
    assert!(!shared.path().exists());
}
