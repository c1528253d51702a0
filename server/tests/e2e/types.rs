//! Each row of the registry of application types: its sample in `examples/` is served, or its error says what to do.

use crate::server::{Server, app, eventually, example, run};
use crate::wrong_input::fails;
use cabrank_spawner::app_type::{Clue, REGISTRY, Service};

#[test]
fn each_type_has_a_sample_that_is_served() {
    for app_type in &REGISTRY {
        if let Service::Instead(_) = app_type.service {
            continue;
        }
        let server = Server::start(&example(app_type.name), &[]);
        assert_eq!(server.status()["app_type"], app_type.name);
        let pid = server.pids()[0];
        let page = server.get("/");
        assert!(page.contains(&pid.to_string()), "{}: {page}", app_type.name);
        assert!(run(server.runtime.path(), &["detach", &pid.to_string()]).status.success());
        eventually("an answer of another process", || {
            let page = server.get("/");
            (!server.pids().contains(&pid) && page.contains(&server.pids().first()?.to_string()))
                .then_some(())
        });
    }
}

#[test]
fn each_type_without_a_loader_is_detected_and_says_what_to_do() {
    for app_type in &REGISTRY {
        let Service::Instead(advice) = app_type.service else { continue };
        assert!(advice.contains("--start-command"));
        for clue in app_type.clues {
            let (Clue::File(file) | Clue::CommonFile(file)) = clue else { continue };
            let dir = tempfile::tempdir().unwrap();
            std::fs::create_dir_all(dir.path().join(file)).unwrap();
            fails(dir.path(), &[], 3, &[app_type.name, app_type.description, advice]);
        }
    }
}

#[test]
fn a_start_command_serves_what_has_no_loader() {
    let dir = app("server.py", "");
    std::fs::create_dir(dir.path().join(".meteor")).unwrap();
    let server = Server::start(
        dir.path(),
        &["--start-command", "python3 -m http.server --bind 127.0.0.1 $PORT"],
    );
    assert!(server.get("/").contains("server.py"));
}

#[test]
fn a_module_and_a_factory_are_served_in_both_kinds_of_python_and_by_a_preloader() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("site_of_ours")).unwrap();
    let wsgi = "
def create(greeting, *, mark='!'):
    def app(environ, start_response):
        start_response('200 OK', [])
        return [f'{greeting}{mark}'.encode()]
    return app
app = create('wsgi')
";
    let asgi = "
async def app(scope, receive, send):
    if scope['type'] == 'http':
        await send({'type': 'http.response.start', 'status': 200, 'headers': []})
        await send({'type': 'http.response.body', 'body': b'asgi'})
create = lambda: app
";
    for (file, text) in [("wsgi.py", wsgi), ("asgi.py", asgi)] {
        std::fs::write(dir.path().join("site_of_ours").join(file), text).unwrap();
    }
    for (name, more, answer) in [
        ("site_of_ours.wsgi:app", &[][..], "wsgi!"),
        ("site_of_ours.wsgi", &["--app-threads", "2"], "wsgi!"),
        ("site_of_ours.wsgi:create('made', mark='?')", &["--spawn-method", "smart"], "made?"),
        ("site_of_ours.asgi:app", &[], "asgi"),
        ("site_of_ours.asgi:create()", &["--app-type", "asgi"], "asgi"),
    ] {
        let server = Server::start(dir.path(), &[&["--app", name][..], more].concat());
        assert!(server.get("/").ends_with(answer), "{name}");
    }
}
