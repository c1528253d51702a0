//! The texts of a few servers, which are the files of `examples/`.

use super::*;
use crate::configuration::cli::{Cli, Command};
use std::path::Path;

fn printed(web_server: &str, options: &[&str]) -> Result<String, String> {
    let dir = tempfile::tempdir().unwrap();
    printed_in(dir.path(), web_server, options)
}

fn printed_in(dir: &Path, web_server: &str, options: &[&str]) -> Result<String, String> {
    std::fs::write(dir.join("passenger_wsgi.py"), "").unwrap();
    let line = ["cabrank", "config", web_server, dir.to_str().unwrap(), "--name", "shop"];
    let Command::Config(args) = Cli::of(line.iter().chain(options)).unwrap().command else {
        panic!("another command")
    };
    let configuration = Configuration::load(&args.start).map_err(|e| e.to_string())?;
    text(&args, &configuration).map_err(|e| e.to_string())
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

#[test]
fn the_directory_public_is_named_if_it_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let (root, odd) = (dir.path().join("shop 2"), dir.path().join("a$b"));
    for dir in [&root, &odd] {
        std::fs::create_dir_all(dir.join("public")).unwrap();
    }
    let of = |web_server, options: &[&str]| printed_in(&root, web_server, options).unwrap();
    let public = format!("\"{}/public\"", root.display());
    let text = of("nginx", &[]);
    let lines = format!("  location / {{\n    root {public};\n    try_files $uri @cabrank_shop;\n");
    assert!(text.contains(&lines) && text.contains("  location @cabrank_shop {\n"), "{text}");
    let text = of("nginx", &["--base-uri", "/a.b"]);
    assert!(
        text.contains(r"location ~ ^/a\.b(/.*)?$ {") && text.contains("try_files $1 @"),
        "{text}"
    );
    let text = of("apache", &[]);
    assert!(text.contains(&format!("DocumentRoot {public}\n")), "{text}");
    assert!(
        text.contains(&format!("<Directory {public}>\n")) && text.contains("no-proxy"),
        "{text}"
    );
    let text = of("apache", &["--base-uri", "/blog"]);
    assert!(text.contains(&format!("Alias \"/blog\" {public}\n")), "{text}");
    for web_server in ["nginx", "apache"] {
        let text = printed_in(&odd, web_server, &[]).unwrap();
        assert!(
            text.contains("Name the directory by a link") && !text.contains("/public"),
            "{text}"
        );
        assert!(!printed(web_server, &[]).unwrap().contains("public"));
    }
}

#[test]
fn the_parts_are_what_the_whole_consists_of() {
    for options in [&["--socket", "/s/http"][..], &["--scgi-socket", "/s/scgi"]] {
        let of = |web_server, part| {
            let text = printed(web_server, &[options, &["--part", part]].concat()).unwrap();
            text.split_once("\n\n").map(|(_, text)| text.to_owned()).unwrap_or_default()
        };
        let (inside, outside) = (of("nginx", "inside"), of("nginx", "outside"));
        let rest = if outside == "\n" { String::new() } else { format!("{outside}\n") };
        let whole =
            format!("{rest}server {{\n  listen 80;\n  server_name shop.example;\n\n{inside}}}\n");
        assert_eq!(of("nginx", "whole"), whole);
        let whole = format!(
            "<VirtualHost *:80>\n  ServerName shop.example\n{}</VirtualHost>\n",
            of("apache", "inside")
        );
        assert_eq!(of("apache", "whole"), whole);
        assert_eq!(of("apache", "outside"), "");
    }
}
