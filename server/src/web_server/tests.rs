//! The texts of a few servers, which are the files of `examples/`.

use super::*;
use crate::configuration::cli::{Cli, Command};
use std::path::Path;

fn printed(web_server: &str, options: &[&str]) -> Result<String, String> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("passenger_wsgi.py"), "").unwrap();
    let line = ["cabrank", "config", web_server, dir.path().to_str().unwrap(), "--name", "shop"];
    let Command::Config(args) = Cli::of(line.iter().chain(options)).unwrap().command else {
        panic!("another command")
    };
    let configuration = Configuration::load(&args.start).map_err(|e| e.to_string())?;
    text(args.web_server, &configuration).map_err(|e| e.to_string())
}

#[test]
fn the_examples_are_what_the_command_prints() {
    let http = ["--socket", "/run/shop/http.sock"];
    let scgi = ["--scgi-socket", "/run/shop/app.scgi"];
    let below = ["--socket", "/run/shop/http.sock", "--base-uri", "/blog"];
    for (file, options) in [
        ("http.conf", &http[..]),
        ("scgi.conf", &scgi),
        ("below-a-path.conf", &below),
        ("port.conf", &[]),
    ] {
        for web_server in ["nginx", "apache"] {
            let text = printed(web_server, options).unwrap();
            let path = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("../examples")
                .join(web_server)
                .join(file);
            if std::env::var_os("CABRANK_WRITE_DOCS").is_some() {
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(&path, &text).unwrap();
            }
            let written = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(
                written == text,
                "{web_server}/{file} is out of date: CABRANK_WRITE_DOCS=1 writes it"
            );
        }
    }
}

#[test]
fn the_text_says_what_the_server_needs() {
    for web_server in ["nginx", "apache"] {
        let text = printed(web_server, &["--address", "0.0.0.0", "--port", "4000"]).unwrap();
        assert!(
            text.contains("127.0.0.1:4000") && text.contains("--trusted-proxies 127.0.0.1"),
            "{text}"
        );
        let text = printed(web_server, &["--address", "::1,127.0.0.1"]).unwrap();
        assert!(text.contains("[::1]:3000") && !text.contains("--trusted-proxies 127"), "{text}");
        assert!(printed(web_server, &["--port", "0"]).unwrap_err().contains("--socket"));
        let both =
            printed(web_server, &["--socket", "/s/http", "--scgi-socket", "/s/scgi"]).unwrap();
        assert!(both.contains("unix:/s/http") && !both.contains("/s/scgi"), "{both}");
        assert!(both.contains("--socket-group"), "{both}");
    }
    let text = printed("nginx", &["--base-uri", "/a.b"]).unwrap();
    assert!(text.contains(r"location ~ ^/a\.b(/|$) {"), "{text}");
}
