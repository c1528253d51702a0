use super::*;
use crate::ErrorKind;

fn root(files: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for f in files {
        std::fs::write(dir.path().join(f), "").unwrap();
    }
    dir
}

#[test]
fn the_startup_file_identifies_the_type() {
    let dir = root(&["app.js"]);
    assert_eq!(find(dir.path(), None, None).unwrap().type_name, "node");
    let dir = root(&["passenger_wsgi.py", "README"]);
    assert_eq!(find(dir.path(), None, None).unwrap().type_name, "wsgi");
}

#[test]
fn the_error_for_an_ambiguous_root_names_both_types_and_the_option() {
    let dir = root(&["app.js", "passenger_wsgi.py"]);
    let message = find(dir.path(), None, None).unwrap_err().message().to_owned();
    for part in ["app.js", "passenger_wsgi.py", "--app-type"] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(find(dir.path(), Some("node"), None).unwrap().type_name, "node");
}

#[test]
fn the_error_for_an_empty_root_lists_the_startup_files() {
    let dir = root(&[]);
    let failure = find(dir.path(), None, None).unwrap_err();
    assert!(failure.message().contains("config.ru") && failure.message().contains("app.js"));
    assert_eq!(failure.kind(), ErrorKind::NotFound);
}

#[test]
fn a_common_name_identifies_the_type_only_if_no_other_file_does() {
    let name = |files: &[&str]| {
        let dir = root(files);
        find(dir.path(), None, None).map(|app| (app.type_name.clone(), app.start().to_owned()))
    };
    assert_eq!(name(&["main.py", "app.py"]).unwrap(), ("python".into(), "app.py".into()));
    assert_eq!(
        name(&["app.py", "passenger_wsgi.py"]).unwrap(),
        ("wsgi".into(), "passenger_wsgi.py".into())
    );
    assert_eq!(name(&["manage.py", "asgi.py"]).unwrap(), ("asgi".into(), "asgi.py".into()));
    assert_eq!(name(&["main.py", "app.js"]).unwrap().0, "node");
    let message = name(&["asgi.py", "wsgi.py", "app.py"]).unwrap_err().message().to_owned();
    assert!(message.contains("wsgi.py (wsgi) and asgi.py (asgi)"), "{message}");
    assert!(message.contains("--app-type") && !message.contains("app.py"), "{message}");
}

#[test]
fn the_type_of_a_python_application_may_be_named_alone() {
    let dir = root(&["manage.py", "wsgi.py"]);
    let startup_file =
        |app_type| find(dir.path(), Some(app_type), None).unwrap().start().to_owned();
    assert_eq!(
        (startup_file("asgi"), startup_file("python")),
        ("wsgi.py".into(), "manage.py".into())
    );
    let empty = root(&["app.js"]);
    let message = find(empty.path(), Some("asgi"), None).unwrap_err().message().to_owned();
    for part in ["asgi.py", "passenger_wsgi.py", "main.py", "--startup-file"] {
        assert!(message.contains(part), "{message}");
    }
    let dir = root(&["server.py", "asgi.py"]);
    let by_file = |file| find(dir.path(), None, Some(file)).unwrap().type_name;
    assert_eq!((by_file("server.py"), by_file("asgi.py")), ("python".into(), "asgi".into()));
}

#[test]
fn a_modern_rails_application_is_a_rack_application() {
    let dir = root(&["config.ru"]);
    std::fs::create_dir(dir.path().join("config")).unwrap();
    std::fs::write(dir.path().join("config/environment.rb"), "").unwrap();
    assert_eq!(find(dir.path(), None, None).unwrap().type_name, "rack");
}

#[test]
fn the_error_for_a_type_without_a_loader_says_what_to_do() {
    let dir = root(&[".meteor"]);
    let message = find(dir.path(), None, None).unwrap_err().message().to_owned();
    assert!(message.contains("meteor") && message.contains("meteor run --port $PORT"), "{message}");
}

#[test]
fn the_extension_of_a_startup_file_identifies_the_type() {
    let dir = root(&["server.mjs", "run"]);
    assert_eq!(find(dir.path(), None, Some("server.mjs")).unwrap().type_name, "node");
    assert!(find(dir.path(), None, Some("run")).unwrap_err().message().contains("--app-type"));
    assert!(find(dir.path(), Some("wsgi"), Some("gone.py")).is_err());
}

#[test]
fn the_startup_file_of_a_node_application_is_the_one_that_npm_start_runs() {
    let startup_file = |files: &[&str], package: &str| {
        let dir = root(files);
        std::fs::write(dir.path().join("package.json"), package).unwrap();
        let app = find(dir.path(), None, None).unwrap();
        (app.type_name.clone(), app.start().to_owned())
    };
    let (start, main) = (r#"{"scripts": {"start": "node ./serve.js"}}"#, r#"{"main": "main.js"}"#);
    assert_eq!(startup_file(&["app.js", "serve.js"], start), ("node".into(), "serve.js".into()));
    assert_eq!(startup_file(&["app.js", "main.js"], main), ("node".into(), "app.js".into()));
    assert_eq!(startup_file(&["main.js"], main), ("node".into(), "main.js".into()));
    assert_eq!(startup_file(&["index.js", "server.js"], "{}"), ("node".into(), "server.js".into()));
    // The package of another application's browser code.
    assert_eq!(startup_file(&["config.ru", "main.js"], main).0, "rack");
}

#[test]
fn a_package_that_starts_otherwise_is_named_in_the_error() {
    for (package, part) in [
        (
            r#"{"scripts": {"start": "next start"}}"#,
            "`next start`. cabrank understands only `node FILE`",
        ),
        (r#"{"scripts": {"start": "node gone.js"}}"#, "names gone.js, which does not exist"),
        ("{", "package.json is not valid JSON"),
    ] {
        let dir = root(&[]);
        std::fs::write(dir.path().join("package.json"), package).unwrap();
        let message = find(dir.path(), None, None).unwrap_err().message().to_owned();
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn a_procfile_counts_only_if_no_other_file_does() {
    let app = |files: &[&str], search: Search<'_>| {
        let dir = root(files);
        std::fs::write(dir.path().join("Procfile"), "web: ./serve\n").unwrap();
        search.find(dir.path()).map(|app| (app.type_name.clone(), app.start().to_owned()))
    };
    let any = Search::default();
    assert_eq!(app(&["README"], any).unwrap(), ("generic".into(), "./serve".into()));
    assert_eq!(app(&["main.py"], any).unwrap().0, "python");
    let generic = Search { app_type: Some("generic"), ..any };
    assert_eq!(app(&["main.py"], generic).unwrap().1, "./serve");
    let command = Search { start_command: Some("./other"), ..any };
    assert_eq!(app(&["config.ru"], command).unwrap(), ("generic".into(), "./other".into()));
}

#[test]
fn a_start_command_excludes_a_startup_file_and_other_types() {
    let dir = root(&["app.js"]);
    let command = Search { start_command: Some("./serve"), ..Search::default() };
    for (search, part) in [
        (Search { app_type: Some("node"), ..command }, "the application type node"),
        (Search { startup_file: Some("app.js"), ..command }, "the startup file app.js"),
    ] {
        let failure = search.find(dir.path()).unwrap_err();
        assert!(failure.message().contains(part), "{failure}");
        assert_eq!(failure.kind(), ErrorKind::Usage);
    }
    let none = Search { app_type: Some("generic"), ..Search::default() };
    let message = none.find(dir.path()).unwrap_err().message().to_owned();
    assert!(message.contains("--start-command") && message.contains("Procfile"), "{message}");
}

#[test]
fn a_module_is_a_python_application_and_excludes_other_ways_to_start() {
    let dir = root(&["config.ru"]);
    let module = Search { module: Some("site.wsgi:app"), ..Search::default() };
    for (name, type_name) in [(None, "python"), (Some("wsgi"), "wsgi"), (Some("asgi"), "asgi")] {
        let app = Search { app_type: name, ..module }.find(dir.path()).unwrap();
        assert_eq!((&*app.type_name, app.start()), (type_name, "site.wsgi:app"));
    }
    for (search, part) in [
        (Search { app_type: Some("node"), ..module }, "the application type node"),
        (Search { startup_file: Some("app.py"), ..module }, "the startup file app.py"),
        (Search { start_command: Some("./serve"), ..module }, "the application site.wsgi:app"),
        (Search { module: Some("site/wsgi.py:app"), ..module }, "package.module:name"),
    ] {
        let failure = search.find(dir.path()).unwrap_err();
        assert!(failure.message().contains(part), "{failure}");
        assert_eq!(failure.kind(), ErrorKind::Usage);
    }
}
