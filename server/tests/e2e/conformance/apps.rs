//! The applications: each answers with what it has received.

use super::case::App;
use crate::server::{node, wsgi};
use tempfile::TempDir;

pub(super) fn write(app: App) -> TempDir {
    match app {
        App::Wsgi => wsgi("", WSGI),
        App::Node => node(NODE),
    }
}

/// `/length/…` declares the length of its answer, `/stream/…` does not.
const WSGI: &str = r#"
body = environ['wsgi.input'].read().decode('latin-1')
uri = environ['REQUEST_URI']
text = f"{environ['REQUEST_METHOD']} {uri} [{body}]".encode('latin-1')
if path == '/slow':
    time.sleep(0.3)
if path == '/host':
    text = environ.get('HTTP_HOST', '(none)').encode()
if path == '/names':
    text = ' '.join(sorted(n for n in environ if n.startswith('HTTP_X'))).encode()
if path == '/204':
    start_response('204 No Content', [])
    return []
if path == '/304':
    start_response('304 Not Modified', [('ETag', '"x"')])
    return []
if path == '/205':
    start_response('205 Reset Content', [])
    return []
if path == '/short':
    start_response('200 OK', [('Content-Length', '100')])
    return [b'too short']
if path == '/long':
    start_response('200 OK', [('Content-Length', '4')])
    return iter([b'four', b'and more'])
if path == '/fields':
    start_response('200 OK', [('Set-Cookie', 'a=1'), ('Set-Cookie', 'b=2'), ('X-Latin', 'caf\xe9')])
    return [b'fields']
if path.startswith('/stream'):
    start_response('200 OK', [('Content-Type', 'text/plain')])
    return iter([b'one ', b'two ', b'three'])
start_response('200 OK', [('Content-Type', 'text/plain'), ('Content-Length', str(len(text)))])
return [text]
"#;

/// `/raw/…` writes an answer of its own to the socket, past the loader's guard.
const NODE: &str = r#"
const { end, write } = require('net').Socket.prototype;
const raw = {
  twice: 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison',
  both: 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
  lengths: 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!',
  garbage: 'This is not HTTP.\r\n\r\n',
  nothing: '',
  half: 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf',
  halfchunk: 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\nhalf',
  badchunk: 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nbad\r\n',
  untilclose: 'HTTP/1.1 200 OK\r\n\r\nuntil the end',
  http10: 'HTTP/1.0 200 OK\r\n\r\nuntil the end',
  switched: 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n',
  hophop: 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nKeep-Alive: timeout=5\r\nConnection: X-Private\r\n' +
    'X-Private: 1\r\nX-Public: 1\r\n\r\nok',
  trailers: 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 1\r\n\r\n',
  headbody: 'HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison',
};
const server = http.createServer((q, s) => {
  const body = [];
  q.on('data', (d) => body.push(d));
  q.on('end', () => {
    const [, kind, name] = q.url.split('/');
    if (kind === 'raw') return end.call(q.socket, raw[name], 'latin1');
    if (kind === 'stay') return write.call(q.socket, raw[name], 'latin1');
    if (kind === 'host') return s.end(q.headers.host);
    if (kind === 'hints') s.writeEarlyHints({ link: '</style.css>; rel=preload' });
    if (kind === 'processing') s.writeProcessing();
    if (kind === 'stream') { s.write('one '); s.write('two '); return s.end('three'); }
    if (kind === 'status') { s.statusCode = Number(name); return s.end(); }
    s.end(`${q.method} ${q.url} [${Buffer.concat(body).toString('latin1')}]`);
  });
});
server.on('checkContinue', (q, s) => {
  if (q.url === '/refuse') { s.statusCode = 403; return s.end('no'); }
  s.writeContinue();
  server.emit('request', q, s);
});
server.on('upgrade', (q, socket, head) => {
  if (q.url === '/refuse') return socket.end('HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno');
  socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n');
  if (head.length) socket.write('echo ' + head);
  socket.on('data', (d) => socket.write('echo ' + d));
  socket.on('end', () => socket.end('bye'));
});
server.listen(0);
"#;
