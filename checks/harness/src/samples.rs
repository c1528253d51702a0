//! Small applications in a temporary directory.
//!
//! # Panics
//!
//! Each function panics if it cannot write its files.

use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// Returns the directory of an example of the repository.
pub fn example(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

/// Writes an application of one file.
pub fn app(file: &str, text: &str) -> TempDir {
    let write = || {
        let dir = tempfile::tempdir()?;
        fs::create_dir(dir.path().join("tmp"))?;
        fs::write(dir.path().join(file), text)?;
        std::io::Result::Ok(dir)
    };
    write().expect("the temporary directory takes files")
}

/// Writes a WSGI application. `body` is the body of `application(environ, start_response)`, and `head` runs
/// when the application is loaded.
pub fn wsgi(head: &str, body: &str) -> TempDir {
    app("passenger_wsgi.py", &wsgi_text(head, body))
}

/// Returns the text of such a WSGI application.
pub fn wsgi_text(head: &str, body: &str) -> String {
    let body = body.replace('\n', "\n    ");
    format!(
        "import os, sys, time\n{head}\n\ndef application(environ, start_response):\n    \
         path = environ['PATH_INFO']\n    def answer(text, status='200 OK'):\n        \
         start_response(status, [('Content-Type', 'text/plain')])\n        \
         return [str(text).encode()]\n    {body}\n"
    )
}

/// Writes a Node application. `body` follows `const http = require('http');`.
pub fn node(body: &str) -> TempDir {
    app("app.js", &format!("const http = require('http');\n{body}\n"))
}
