//! The handshake against well-behaved and misbehaving loaders, over a real socketpair.

use super::*;

type Outcome = Result<(Ready, Vec<u8>), Refusal>;

/// Runs the handshake against a loader that writes `parts` one by one and then hangs up.
///
/// Returns the outcome, the application's output, and the text that the loader received.
fn against(parts: &[&str]) -> (Outcome, Vec<String>, String) {
    let (server, mut loader) = UnixStream::pair().unwrap();
    let parts: Vec<String> = parts.iter().map(|p| (*p).to_owned()).collect();
    let writer = std::thread::spawn(move || {
        for part in parts {
            let _ = loader.write_all(part.as_bytes());
            std::thread::yield_now();
        }
        loader.shutdown(std::net::Shutdown::Write).unwrap();
        let mut heard = String::new();
        let _ = loader.read_to_string(&mut heard);
        heard
    });
    let mut said = Vec::new();
    let keys = [("app_root", "/srv/a".to_owned()), ("app_type", "wsgi".to_owned())];
    let deadline = Instant::now() + Duration::from_secs(10);
    let outcome = perform(&server, &keys, deadline, |l| {
        said.push(String::from_utf8_lossy(l).into_owned());
    });
    drop(server);
    (outcome, said, writer.join().unwrap())
}

const READY: &str = "!> Ready\n!> socket: main;unix:/run/a;session;1\n!> pid: 7\n!> \n";

#[test]
fn keys_are_sent_in_order_and_output_after_ready_is_kept() {
    let (outcome, said, heard) =
        against(&["\n", "!> I have control 1.0\n", READY, "already serving\n"]);
    let (ready, mut rest) = outcome.unwrap();
    assert_eq!(ready.pid, Some(7));
    assert_eq!(
        ready.sockets,
        [Socket {
            name: "main".into(),
            address: Address::Unix("/run/a".into()),
            protocol: Protocol::Session,
            concurrency: 1
        }]
    );
    assert_eq!(heard, "You have control 1.0\napp_root: /srv/a\napp_type: wsgi\n\n");
    assert!(said.is_empty());
    rest.truncate(8);
    assert!(b"already serving\n".starts_with(&rest));
}

#[test]
fn a_socket_with_kept_sessions_is_preferred_to_main() {
    let hello = "!> I have control 1.0\n!> Ready\n!> socket: main;unix:/m;session;1\n";
    for (further, chosen) in [
        ("!> socket: kept;unix:/k;kept_session;1\n", "kept"),
        ("!> socket: any;unix:/k;kept_session;1\n", "any"),
        ("!> socket: web;unix:/h;http_session;1\n", "main"),
        ("!> socket: next;unix:/n;protocol_of_the_future;1\n", "main"),
        ("", "main"),
    ] {
        let (outcome, _, _) = against(&[hello, further, "!> \n"]);
        assert_eq!(outcome.unwrap().0.preferred().unwrap().name, chosen, "{further}");
    }
}

#[test]
fn bytes_may_come_one_by_one_and_between_lines_of_output() {
    let text = format!("boot\n!> I have control 1.0\nloading…\n{READY}");
    let parts: Vec<String> = text.chars().map(String::from).collect();
    let parts: Vec<&str> = parts.iter().map(|s| &**s).collect();
    let (outcome, said, _) = against(&parts);
    assert!(outcome.is_ok());
    assert_eq!(said, ["boot", "loading…"]);
}

#[test]
fn a_loader_may_replace_itself_and_start_over() {
    let hello = "!> I have control 1.0\n";
    let (outcome, _, heard) = against(&[hello, hello, READY]);
    assert!(outcome.is_ok());
    assert_eq!(heard.matches("You have control 1.0\n").count(), 2);
}

#[test]
fn an_error_carries_its_text_and_whether_it_is_html() {
    let (outcome, _, _) =
        against(&["!> I have control 1.0\n!> Error\n!> html: true\n!> \n<b>no</b>\n", "really\n"]);
    assert_eq!(
        outcome.unwrap_err(),
        Refusal::Error { html: true, text: "<b>no</b>\nreally\n".into() }
    );
}

#[test]
fn the_output_of_a_loader_that_dies_is_kept() {
    let (outcome, said, _) = against(&["!> I have control 1.0\n", "Segmentation fault"]);
    assert_eq!(outcome.unwrap_err(), Refusal::HungUp);
    assert_eq!(said, ["Segmentation fault"]);
}

#[test]
fn the_last_words_of_a_loader_that_is_gone_before_the_greeting_are_kept() {
    let (server, mut loader) = UnixStream::pair().unwrap();
    loader.write_all(b"!> I have control 1.0\nno memory").unwrap();
    drop(loader);
    let mut said = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(10);
    let outcome = perform(&server, &[], deadline, |line| said.extend_from_slice(line));
    assert_eq!(outcome.unwrap_err(), Refusal::HungUp);
    assert_eq!(said, b"no memory");
}

#[test]
fn the_end_of_a_long_line_of_output_is_no_line_of_the_protocol() {
    let long = "x".repeat(4096);
    let (outcome, said, _) = against(&[&long, "!> Error\n!> I have control 1.0\n", READY]);
    assert!(outcome.is_ok(), "{outcome:?}");
    assert_eq!(said.concat(), format!("{long}!> Error"));
}

#[test]
fn the_error_for_a_breach_of_the_protocol_names_it() {
    let hello = "!> I have control 1.0\n";
    for (said, named) in [
        ("!> I have control 9.9\n".to_owned(), "9.9"),
        (format!("{hello}!> Maybe\n"), "Maybe"),
        ("!> Ready\n".to_owned(), "expected `!> I have control 1.0`"),
        (format!("{hello}!> Ready\n!> colour: red\n!> \n"), "unknown key"),
        (format!("{hello}!> Ready\n!> \n"), "`main`"),
        (format!("{hello}!> Ready\n!> socket: main;unix:/a;morse;1\n"), "unknown protocol morse"),
        (format!("{hello}!> Ready\n!> socket: main;unix:/a;kept_session;1\n"), "kept_session"),
        (format!("{hello}!> Ready\n!> socket: main;unix:a;session;1\n"), "not absolute"),
        (format!("{hello}!> Ready\n!> socket: main;unix:/a/../b;session;1\n"), "not absolute"),
        (format!("{hello}!> Ready\n!> socket: main;tcp://8.8.8.8:80;session;1\n"), "neither"),
        (format!("{hello}!> Ready\n!> socket: main;unix:/a;session\n"), "NAME;ADDRESS"),
        (format!("{hello}!> {}\n", "x".repeat(5000)), "4096"),
    ] {
        match against(&[&said]).0 {
            Err(Refusal::Protocol(why)) => assert!(why.contains(named), "{why}"),
            other => panic!("{said:?} gave {other:?}"),
        }
    }
}

#[test]
fn a_long_line_of_output_is_allowed() {
    let (outcome, said, _) = against(&[&"x".repeat(10_000), "\n!> I have control 1.0\n", READY]);
    assert!(outcome.is_ok());
    assert_eq!(said.concat().len(), 10_000);
}

#[test]
fn the_deadline_covers_the_whole_exchange() {
    let (server, _loader) = UnixStream::pair().unwrap();
    let outcome = perform(&server, &[], Instant::now() + Duration::from_millis(20), |_| ());
    assert_eq!(outcome.unwrap_err(), Refusal::TimedOut);
}

#[test]
fn a_value_cannot_inject_further_keys() {
    let (server, mut loader) = UnixStream::pair().unwrap();
    loader.write_all(b"!> I have control 1.0\n").unwrap();
    let keys = [("environment", "x\nuser: root".to_owned())];
    let outcome = perform(&server, &keys, Instant::now() + Duration::from_secs(5), |_| ());
    assert!(matches!(outcome, Err(Refusal::Protocol(_))));
}
