//! The handshake beside a model: all orders of lines, all cuts, all pieces.
//!
//! The model knows the meaning of each line from its kind, and never parses one.

use super::*;
use proptest::prelude::*;

/// A line that a loader may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Hello,
    Ready,
    Error,
    End,
    Main,
    MainByTcp,
    Kept,
    Commands,
    Pid,
    WebSockets,
    Origin,
    Upgrades,
    Html,
    /// A line of the protocol that has no meaning in any state.
    Unknown,
    NotUtf8,
    TooLong,
    Output,
    /// Output that is longer than a line, with a line of the protocol inside.
    LongOutput,
    Blank,
}
use Kind::*;

const KINDS: [Kind; 19] = [
    Hello, Ready, Error, End, Main, MainByTcp, Kept, Commands, Pid, WebSockets, Origin, Upgrades,
    Html, Unknown, NotUtf8, TooLong, Output, LongOutput, Blank,
];

impl Kind {
    fn bytes(self) -> Vec<u8> {
        let mut bytes = match self {
            Hello => b"!> I have control 1.0".to_vec(),
            Ready => b"!> Ready".to_vec(),
            Error => b"!> Error".to_vec(),
            End => b"!> ".to_vec(),
            Main => b"!> socket: main;unix:/m;session;1".to_vec(),
            MainByTcp => b"!> socket: main;tcp://127.0.0.1:80;http_session;0".to_vec(),
            Kept => b"!> socket: kept;unix:/k;kept_session;1".to_vec(),
            Commands => b"!> socket: unix:/c".to_vec(),
            Pid => b"!> pid: 7".to_vec(),
            WebSockets => b"!> ends_websockets: true".to_vec(),
            Origin => b"!> takes_origin: true".to_vec(),
            Upgrades => b"!> takes_upgrades: true".to_vec(),
            Html => b"!> html: true".to_vec(),
            Unknown => b"!> colour: red".to_vec(),
            NotUtf8 => b"!> \xff".to_vec(),
            TooLong => [b"!> socket: ".to_vec(), vec![b'x'; MAX_LINE]].concat(),
            Output => b"loading !> Ready".to_vec(),
            LongOutput => [vec![b'y'; MAX_LINE], b"!> Error".to_vec()].concat(),
            Blank => Vec::new(),
        };
        bytes.push(b'\n');
        bytes
    }

    fn is_output(self) -> bool {
        matches!(self, Output | LongOutput | Blank)
    }

    /// Returns the line between `Ready` and its end, as `NAME ADDRESS PROTOCOL`.
    fn fact(self) -> Option<&'static str> {
        match self {
            Main => Some("main unix:/m Session"),
            MainByTcp => Some("main 127.0.0.1:80 HttpSession"),
            Kept => Some("kept unix:/k KeptSession"),
            _ => None,
        }
    }
}

/// How a handshake ends.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Ready {
        facts: Vec<String>,
        commands: bool,
        pid: bool,
        websockets: bool,
        origin: bool,
        upgrades: bool,
        rest: Vec<u8>,
    },
    Error {
        html: bool,
        text: String,
    },
    HungUp,
    Breach,
}

/// All that can be seen of a handshake.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    end: Outcome,
    greetings: usize,
    /// The application's output, without line breaks.
    output: Vec<u8>,
}

/// Says what must be seen of the first `cut` bytes of these lines.
fn model(lines: &[Kind], cut: usize) -> Seen {
    let all: Vec<u8> = lines.iter().flat_map(|line| line.bytes()).take(cut).collect();
    let mut seen = Seen { end: Outcome::HungUp, greetings: 0, output: Vec::new() };
    let (mut facts, mut commands, mut pid, mut html) = (Vec::new(), false, false, false);
    let (mut websockets, mut origin, mut upgrades) = (false, false, false);
    // The phase is `Hello` before the greeting, `Ready` after it, then `Main` or `Error`.
    let (mut phase, mut at) = (Hello, 0);
    for line in lines {
        let bytes = line.bytes();
        let has = all.len().saturating_sub(at).min(bytes.len());
        if has < bytes.len() {
            let partial = &bytes[..has];
            if phase == Error {
                seen.end = Outcome::Error { html, text: String::new() };
            }
            if !line.is_output() && partial.len() > MAX_LINE {
                seen.end = Outcome::Breach;
            } else {
                seen.output.extend_from_slice(partial);
            }
            return seen;
        }
        at += has;
        let is_breach = match (phase, *line) {
            (_, line) if line.is_output() => {
                seen.output.extend_from_slice(&bytes[..bytes.len() - 1]);
                false
            }
            (Hello | Ready, Hello) => {
                seen.greetings += 1;
                phase = Ready;
                false
            }
            (Ready, Ready) => {
                phase = Main;
                false
            }
            (Hello | Ready, Error) => {
                phase = Error;
                false
            }
            (Main, line) if line.fact().is_some() => {
                facts.extend(line.fact().map(str::to_owned));
                false
            }
            (Main, Commands) => {
                commands = true;
                false
            }
            (Main, Pid) => {
                pid = true;
                false
            }
            (Main, WebSockets) => {
                websockets = true;
                false
            }
            (Main, Origin) => {
                origin = true;
                false
            }
            (Main, Upgrades) => {
                upgrades = true;
                false
            }
            (Main, End) => {
                let mains = facts.iter().filter(|fact| fact.starts_with("main")).count();
                seen.end = if mains == 1 || commands {
                    let rest = all[at..].to_vec();
                    Outcome::Ready { facts, commands, pid, websockets, origin, upgrades, rest }
                } else {
                    Outcome::Breach
                };
                return seen;
            }
            (Error, Html) => {
                html = true;
                false
            }
            (Error, End) => {
                let text = String::from_utf8_lossy(&all[at..]).into_owned();
                seen.end = Outcome::Error { html, text };
                return seen;
            }
            _ => true,
        };
        if is_breach {
            seen.end = Outcome::Breach;
            return seen;
        }
    }
    if phase == Error {
        seen.end = Outcome::Error { html, text: String::new() };
    }
    seen
}

/// Lets the machine read pieces of these sizes, again and again, and then the end of the input.
fn machine(input: &[u8], sizes: &[usize]) -> Seen {
    let mut machine = Machine::new();
    let (mut greetings, mut output) = (0, Vec::new());
    let (mut at, mut sizes) = (0, sizes.iter().cycle());
    let result = loop {
        match machine.step() {
            Ok(Step::Greet) => greetings += 1,
            Ok(Step::Output(line)) => {
                assert!(!line.is_empty() && line.len() <= MAX_LINE && !line.contains(&b'\n'));
                output.extend(line);
            }
            Ok(Step::Ready(ready)) => break Ok(ready),
            Err(refusal) => break Err(refusal),
            Ok(Step::Read) if at == input.len() => {
                let (refusal, last) = machine.end(Refusal::HungUp);
                output.extend(last);
                break Err(refusal);
            }
            Ok(Step::Read) => {
                let size = sizes.next().map_or(usize::MAX, |size| *size);
                let next = at.saturating_add(size).min(input.len());
                machine.push(&input[at..next]);
                at = next;
            }
        }
    };
    let end = match result {
        Ok(ready) => {
            let name = |address: &Address| match address {
                Address::Unix(path) | Address::UnixOf(path, _) => {
                    format!("unix:{}", path.display())
                }
                Address::Tcp(at) => at.to_string(),
            };
            let fact = |s: &super::super::answer::Socket| {
                format!("{} {} {:?}", s.name, name(&s.address), s.protocol)
            };
            Outcome::Ready {
                facts: ready.sockets.iter().map(fact).collect(),
                commands: ready.commands.is_some(),
                pid: ready.pid == Some(7),
                websockets: ready.ends_websockets,
                origin: ready.takes_origin,
                upgrades: ready.takes_upgrades,
                rest: [machine.into_rest(), input[at..].to_vec()].concat(),
            }
        }
        Err(Refusal::Error { html, text }) => Outcome::Error { html, text },
        Err(Refusal::HungUp) => Outcome::HungUp,
        Err(Refusal::Protocol(why)) => {
            assert!(!why.is_empty());
            Outcome::Breach
        }
        Err(other) => panic!("{other:?} without I/O"),
    };
    Seen { end, greetings, output }
}

/// Compares the machine with the model for some pieces.
#[track_caller]
fn agree(lines: &[Kind], cut: usize, sizes: &[usize]) {
    let input: Vec<u8> = lines.iter().flat_map(|line| line.bytes()).take(cut).collect();
    assert_eq!(
        machine(&input, sizes),
        model(lines, cut),
        "{lines:?}, {cut} bytes, pieces {sizes:?}"
    );
}

/// Calls `check` with every sequence of up to `length` lines of these kinds.
fn each_order(
    kinds: &[Kind],
    length: usize,
    lines: &mut Vec<Kind>,
    check: &mut impl FnMut(&[Kind]),
) {
    check(lines);
    if lines.len() < length {
        for kind in kinds {
            lines.push(*kind);
            each_order(kinds, length, lines, check);
            lines.pop();
        }
    }
}

#[test]
fn every_order_of_four_lines_agrees_with_the_model() {
    let mut orders = 0;
    each_order(&KINDS, 4, &mut Vec::new(), &mut |lines| {
        orders += 1;
        agree(lines, usize::MAX, &[usize::MAX]);
    });
    assert_eq!(orders, 1 + 19 + 19 * 19 + 19 * 19 * 19 + 19 * 19 * 19 * 19);
}

#[test]
fn every_order_of_seven_lines_of_a_whole_handshake_agrees_with_the_model() {
    let kinds = [Hello, Ready, Main, End, Error];
    each_order(&kinds, 7, &mut Vec::new(), &mut |lines| agree(lines, usize::MAX, &[usize::MAX]));
}

#[test]
fn every_cut_of_every_short_order_agrees_with_the_model_byte_by_byte() {
    let short: Vec<Kind> =
        KINDS.into_iter().filter(|k| !matches!(k, TooLong | LongOutput)).collect();
    each_order(&short, 2, &mut vec![Hello], &mut |lines| {
        let size: usize = lines.iter().map(|line| line.bytes().len()).sum();
        for cut in 0..=size {
            agree(lines, cut, &[1]);
        }
    });
    for lines in [
        vec![Hello, Ready, Main, Kept, Pid, WebSockets, Origin, Upgrades, End, Output],
        vec![Output, Hello, Hello, Ready, Blank, Commands, End],
        vec![Hello, Error, Html, End, Output, Hello],
    ] {
        let size: usize = lines.iter().map(|line| line.bytes().len()).sum();
        for cut in 0..=size {
            agree(&lines, cut, &[1]);
        }
    }
}

proptest! {
    #[test]
    fn long_sequences_agree_with_the_model(
        lines in prop::collection::vec(prop::sample::select(KINDS.to_vec()), 0..12),
        begins in prop::sample::select(vec![&[][..], &[Hello], &[Hello, Ready], &[Hello, Ready, Main], &[Hello, Error]]),
        cut in 0usize..20_000,
        sizes in prop::collection::vec(1usize..6000, 1..6),
    ) {
        let lines = [begins, &lines].concat();
        agree(&lines, usize::MAX, &sizes);
        agree(&lines, cut, &sizes);
    }

    #[test]
    fn garbage_means_the_same_in_any_pieces(
        parts in prop::collection::vec(
            prop_oneof![
                prop::sample::select(KINDS.to_vec()).prop_map(Kind::bytes),
                prop::collection::vec(any::<u8>(), 0..40),
                Just(b"!> ".to_vec()),
            ],
            0..12,
        ),
        sizes in prop::collection::vec(1usize..100, 1..6),
    ) {
        let input = parts.concat();
        prop_assert_eq!(machine(&input, &sizes), machine(&input, &[usize::MAX]));
    }
}

#[test]
fn the_sockets_of_an_application_are_limited() {
    let mut machine = Machine::new();
    machine.push(format!("!> {HELLO}\n!> Ready\n").as_bytes());
    assert_eq!(machine.step(), Ok(Step::Greet));
    for number in 0..MAX_SOCKETS {
        machine.push(format!("!> socket: s{number};tcp://127.0.0.1:1;http_session;0\n").as_bytes());
        assert_eq!(machine.step(), Ok(Step::Read));
    }
    machine.push(b"!> socket: main;tcp://127.0.0.1:1;http_session;0\n");
    let Err(Refusal::Protocol(why)) = machine.step() else { panic!("it takes any number") };
    assert!(why.starts_with("more than 16 sockets"), "{why}");
}

#[test]
fn the_text_of_an_error_is_limited() {
    let mut input = b"!> Error\n!> \n".to_vec();
    input.resize(input.len() + MAX_ERROR_TEXT + 5000, b'e');
    for sizes in [&[usize::MAX][..], &[4096], &[1, 70_000]] {
        let Outcome::Error { text, .. } = machine(&input, sizes).end else { panic!("no error") };
        assert_eq!(text.len(), MAX_ERROR_TEXT);
    }
}
