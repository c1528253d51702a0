//! The choice of the server that a tool addresses.

use crate::admin::Identity;
use crate::failure::Failure;
use cabrank_spawner::{Running, Standing};
use std::path::Path;

/// A server of the caller, and what the operator calls it.
struct Known {
    server: Running,
    identity: Option<Identity>,
}

/// Returns the pid of a server, and its user if that is not the caller.
pub(crate) fn name(server: &Running) -> String {
    let pid = server.pid;
    match &server.standing {
        Standing::Own => pid.to_string(),
        Standing::Untrusted(why) => format!("{pid} in {} ({why})", server.path.display()),
        Standing::Other(user) => format!("{pid} of the user {user}"),
    }
}

impl Known {
    /// Returns the pid, name and directory.
    fn text(&self) -> String {
        match &self.identity {
            Some(Identity { name, directory, .. }) => {
                format!("{} ({name} in {directory})", self.server.pid)
            }
            None => name(&self.server),
        }
    }

    /// Returns whether the server is called so.
    fn answers_to(&self, word: &str) -> bool {
        self.server.pid.to_string() == word
            || self.identity.as_ref().is_some_and(|identity| is_called(identity, word))
    }
}

/// Returns whether a server has this name, directory, port, address or socket.
fn is_called(identity: &Identity, word: &str) -> bool {
    let is_place = |place: &String| {
        let address = place.strip_prefix("http://");
        let port = address.and_then(|address| address.rsplit(':').next());
        let path = ["unix:", "scgi:"].iter().find_map(|scheme| place.strip_prefix(scheme));
        [Some(&**place), address, port, path].contains(&Some(word))
    };
    // A word without a slash is a name: the same word in another directory would be another path.
    let is_path = word.contains('/') || matches!(word, "." | "..");
    identity.name == word
        || identity.addresses.iter().any(is_place)
        || is_path && is_same(Path::new(word), Path::new(&identity.directory))
}

fn is_same(one: &Path, other: &Path) -> bool {
    one.components().eq(other.components())
        || one.canonicalize().ok().is_some_and(|one| other.canonicalize().is_ok_and(|o| o == one))
}

/// Chooses the server that the command addresses, by its pid, name, directory, port or socket. `identities` asks servers
/// of the caller for these, where the choice depends on them.
///
/// A server of another user, or in a directory that is not trusted, is chosen only by its pid, and only if the caller has
/// none that is called so.
pub(crate) fn choose(
    running: Vec<Running>,
    wanted: Option<&str>,
    identities: impl Fn(&[Running]) -> Vec<Option<Identity>>,
) -> Result<Running, Failure> {
    let (own, others): (Vec<_>, Vec<_>) =
        running.into_iter().partition(|s| s.standing == Standing::Own);
    let has_pid = |server: &Running| wanted == Some(&*server.pid.to_string());
    let is_clear = own.len() == 1 && wanted.is_none_or(|_| has_pid(&own[0]));
    let identities = if is_clear { vec![None] } else { identities(&own) };
    let own: Vec<_> = own
        .into_iter()
        .zip(identities)
        .map(|(server, identity)| Known { server, identity })
        .collect();
    let list = |known: &[&Known]| known.iter().map(|k| k.text()).collect::<Vec<_>>().join(", ");
    let names = |servers: &[&Running]| {
        servers.iter().map(|server| name(server)).collect::<Vec<_>>().join(", ")
    };
    let all: Vec<_> = own.iter().map(Known::text).chain(others.iter().map(name)).collect();
    let matching: Vec<_> =
        own.iter().filter(|known| wanted.is_none_or(|word| known.answers_to(word))).collect();
    let foreign: Vec<_> = others.iter().filter(|server| has_pid(server)).collect();
    match (&matching[..], wanted) {
        ([one], _) => Ok(one.server.clone()),
        ([_, _, ..], None) => Err(Failure::usage(format!(
            "several servers are running: {}. Choose one with --instance, by its pid, name, directory or port.",
            list(&matching)
        ))),
        ([first, rest @ ..], Some(_)) if rest.iter().all(|k| k.server.pid == first.server.pid) => {
            Err(same_pid(matching.iter().map(|known| &known.server)))
        }
        ([_, ..], Some(word)) => Err(Failure::usage(format!(
            "several servers are called {word}: {}. Choose one with --instance, by another of its names.",
            list(&matching)
        ))),
        ([], Some(word)) => match foreign[..] {
            [one] => Ok(one.clone()),
            [_, ..] => Err(same_pid(foreign.iter().copied())),
            [] if !all.is_empty() => Err(Failure::not_found(format!(
                "no server {word} is running. Running servers: {}.",
                all.join(", ")
            ))),
            [] => Err(none()),
        },
        ([], None) if !others.is_empty() => Err(Failure::not_found(format!(
            "found no running server of this user. Others: {}. Choose one with --instance PID.",
            names(&others.iter().collect::<Vec<_>>())
        ))),
        ([], None) => Err(none()),
    }
}

fn same_pid<'a>(servers: impl Iterator<Item = &'a Running>) -> Failure {
    let mut pid = 0;
    let paths: Vec<_> =
        servers.inspect(|s| pid = s.pid).map(|s| s.path.display().to_string()).collect();
    Failure::usage(format!(
        "several instance directories have the pid {pid}: {}. Remove the false ones.",
        paths.join(", ")
    ))
}

fn none() -> Failure {
    Failure::not_found(
        "found no running server of this user. Start one with `cabrank start DIR`. A server that has logged that it is not \
         registered is found with its TMPDIR. A server of another user restarts at the next request after `touch tmp/restart.txt`.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use cabrank_spawner::DirIdentity;

    fn identity(pid: u32) -> Option<Identity> {
        let (name, directory) = (format!("n{pid}"), format!("/srv/{pid}"));
        let addresses = vec![format!("http://[::1]:300{pid}"), format!("unix:/run/{pid}.sock")];
        Some(Identity { name, directory, addresses })
    }

    /// Chooses among servers that do not say who they are.
    fn chosen(running: Vec<Running>, wanted: Option<&str>) -> Result<Running, Failure> {
        choose(running, wanted, |servers| vec![None; servers.len()])
    }

    fn server(pid: u32, owner: Option<&str>) -> Running {
        let path = format!("/{pid}/{owner:?}").into();
        let standing = owner.map_or(Standing::Own, |owner| Standing::Other(owner.into()));
        Running { pid, path, standing, identity: DirIdentity::default() }
    }

    #[test]
    fn a_single_server_is_chosen_and_several_are_listed() {
        let one = || vec![server(5, None)];
        let two = || vec![server(5, None), server(6, None)];
        assert_eq!(chosen(one(), None).unwrap().pid, 5);
        assert_eq!(chosen(two(), Some("6")).unwrap().pid, 6);
        let message = chosen(two(), None).unwrap_err().message;
        assert!(message.contains("5, 6") && message.contains("--instance"), "{message}");
        assert_eq!(chosen(Vec::new(), None).unwrap_err().kind as u8, 3);
        assert!(chosen(one(), Some("9")).unwrap_err().message.contains("no server 9"));
    }

    #[test]
    fn a_server_of_another_user_is_chosen_only_by_its_pid() {
        let all = || vec![server(5, Some("mallory")), server(5, None), server(7, Some("bob"))];
        assert_eq!(chosen(all(), None).unwrap(), server(5, None));
        assert_eq!(chosen(all(), Some("5")).unwrap(), server(5, None));
        assert_eq!(chosen(all(), Some("7")).unwrap(), server(7, Some("bob")));
        let message = chosen(all(), Some("9")).unwrap_err().message;
        assert!(message.contains("5, 5 of the user mallory, 7 of the user bob"), "{message}");
        let alone = chosen(vec![server(7, Some("bob"))], None).unwrap_err();
        assert_eq!(alone.kind as u8, 3);
        assert!(
            alone.message.contains("7 of the user bob") && alone.message.contains("--instance")
        );
        let two = vec![server(5, Some("mallory")), server(5, Some("bob"))];
        assert_eq!(chosen(two, Some("5")).unwrap_err().kind as u8, 2);
    }

    #[test]
    fn a_directory_that_is_not_trusted_makes_no_choice_ambiguous() {
        let untrusted = |pid| {
            let standing = Standing::Untrusted("other users may open it");
            Running { path: format!("/{pid}/untrusted").into(), standing, ..server(pid, None) }
        };
        let all = || vec![untrusted(5), server(5, None), untrusted(6)];
        assert_eq!(chosen(all(), None).unwrap(), server(5, None));
        assert_eq!(chosen(all(), Some("5")).unwrap(), server(5, None));
        assert_eq!(chosen(all(), Some("6")).unwrap(), untrusted(6));
        let alone = chosen(vec![untrusted(5)], None).unwrap_err();
        assert_eq!(alone.kind as u8, 3);
        let text = alone.message;
        assert!(text.contains("Others: 5 in /5/untrusted (other users may open it)."), "{text}");
    }

    #[test]
    fn a_server_is_chosen_by_name_directory_port_socket_or_pid() {
        let all = || vec![server(5, None), server(6, None), server(7, Some("bob"))];
        let identities = |servers: &[Running]| servers.iter().map(|s| identity(s.pid)).collect();
        let chosen = |word: &str| choose(all(), Some(word), identities);
        for word in [
            "6",
            "n6",
            "/srv/6",
            "/srv/./6/",
            "3006",
            "[::1]:3006",
            "/run/6.sock",
            "unix:/run/6.sock",
        ] {
            assert_eq!(chosen(word).unwrap().pid, 6, "{word}");
        }
        // A server of another user is not asked.
        for word in ["n7", "3007", "/srv/7", "n", "300", ""] {
            let failure = chosen(word).unwrap_err();
            assert!(
                failure.kind as u8 == 3 && failure.message.contains("5 (n5 in /srv/5)"),
                "{word}"
            );
        }
    }

    #[test]
    fn a_word_for_several_servers_is_an_error_with_the_candidates() {
        let shop = |pid: u32| Identity { name: "shop".into(), ..identity(pid).unwrap() };
        let identities = |servers: &[Running]| servers.iter().map(|s| Some(shop(s.pid))).collect();
        let all = || vec![server(5, None), server(6, None), server(3006, None)];
        for (word, candidates) in
            [("shop", "5 (shop in /srv/5), 6 (shop"), ("3006", "6 (shop in /srv/6), 3006 (shop")]
        {
            let failure = choose(all(), Some(word), identities).unwrap_err();
            assert!(failure.kind as u8 == 2 && failure.message.contains(candidates), "{failure}");
        }
        let message = choose(all(), None, identities).unwrap_err().message;
        assert!(message.contains("6 (shop in /srv/6)"), "{message}");
    }
}
