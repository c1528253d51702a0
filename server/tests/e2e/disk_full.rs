//! A disk without space costs the request that needs it, and no other.

use crate::server::{Server, after, start_command, wsgi};
use std::path::Path;

/// Starts a server whose files may not exceed 200 KB.
fn with_small_files(dir: &Path) -> Server {
    let runtime = tempfile::tempdir().unwrap();
    let server = start_command(runtime.path(), dir, &["--max-pool-size", "1"]);
    let limit = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); \
                 resource.setrlimit(resource.RLIMIT_FSIZE, (200000, 200000))";
    Server::start_with(after(limit, &server), runtime)
}

#[test]
fn a_body_without_space_is_refused_and_an_answer_without_space_waits_for_its_client() {
    let dir = wsgi(
        "",
        "if path == '/big': return answer('x' * (16 << 20))\n\
         return answer(len(environ['wsgi.input'].read()))",
    );
    let server = with_small_files(dir.path());
    let refused = server.client().request("POST", "/", &[], &[b'x'; 1 << 20]).unwrap();
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    server.logs("a request cannot be buffered");
    for _ in 0..3 {
        let small = server.client().request("POST", "/", &[], b"abc").unwrap();
        assert_eq!((small.status, small.text().as_str()), (200, "3"));
    }
    let mut slow = server.client();
    slow.send(b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500)); // the answer fills the buffers
    assert_eq!(slow.reply("GET").unwrap().body.len(), 16 << 20);
    assert_eq!(server.client().request("POST", "/", &[], b"abcd").unwrap().text(), "4");
}
