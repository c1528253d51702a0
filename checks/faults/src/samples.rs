//! The sample applications: the same paths for WSGI, Node and Rack.
//!
//! | path | what it does |
//! |---|---|
//! | `/` | answers `ok` |
//! | `/pid` | answers with the pid of its process |
//! | `/sleep/N` | answers after N seconds |
//! | `/big/N` | answers with N bytes |
//! | `/hang` | never returns, and keeps its processor busy |
//! | `/die` | kills its own process |
//! | `/half` | breaks off within its answer |
//! | `/shut` | shuts down the channel to the server (WSGI) |
//! | `/print` | prints garbage to that channel (WSGI) |
//! | `/child` | starts a child that sleeps, and answers with its own pid (WSGI) |
//! | `/bomb` | forks until the system refuses; answers with its own pid and the number of its children (WSGI) |
//! | `POST /length` | answers with the length of the body |

use crate::app::App;
use crate::kind::Kind;
use std::fs;
use std::io;
use std::path::Path;

pub(crate) fn write(dir: &Path, app: App, kind: Kind) -> io::Result<()> {
    fs::create_dir_all(dir.join("tmp"))?;
    let (file, text) = match app {
        App::Wsgi if kind == Kind::Puma => ("config.ru", RACK),
        App::Wsgi => ("passenger_wsgi.py", PYTHON),
        App::Node => ("app.js", NODE),
    };
    fs::write(dir.join(file), text)
}

const PYTHON: &str = r#"
import os, signal, socket, subprocess, time

def application(environ, start_response):
    path = environ['PATH_INFO']
    def answer(body):
        start_response('200 OK', [('Content-Type', 'text/plain'), ('Content-Length', str(len(body)))])
        return [body]
    if path == '/pid':
        return answer(str(os.getpid()).encode())
    if path.startswith('/sleep/'):
        time.sleep(float(path[7:]))
    if path.startswith('/big/'):
        return answer(b'x' * int(path[5:]))
    if path == '/hang':
        while True: pass
    if path == '/die':
        os.kill(os.getpid(), signal.SIGKILL)
    if path == '/half':
        def half():
            yield b'x' * 500
            os.kill(os.getpid(), signal.SIGKILL)
        start_response('200 OK', [('Content-Length', '1000')])
        return half()
    if path == '/shut':
        socket.socket(fileno=os.dup(1)).shutdown(socket.SHUT_RDWR)
    if path == '/print':
        os.write(1, b'\n!> Ready\n!> socket: main;unix:/etc/x;session;1\n!> \n' + os.urandom(3000))
    if path == '/child':
        subprocess.Popen(['sleep', '300'])
        return answer(str(os.getpid()).encode())
    if path == '/bomb':
        children = 0
        try:
            # The bound is for a machine where the limit does not hold.
            while children < 500:
                if not os.fork():
                    time.sleep(300)
                    os._exit(0)
                children += 1
        except OSError:
            pass
        return answer(b'%d %d' % (os.getpid(), children))
    if path == '/length':
        size, rest = 0, int(environ.get('CONTENT_LENGTH') or 0)
        while rest > 0:
            piece = environ['wsgi.input'].read(min(rest, 65536))
            if not piece: break
            size += len(piece)
            rest -= len(piece)
        return answer(str(size).encode())
    return answer(b'ok')
"#;

const NODE: &str = r#"
const http = require('http');
http.createServer((q, s) => {
  const [, what, number] = q.url.split('/');
  if (what === 'pid') return s.end(String(process.pid));
  if (what === 'sleep') return setTimeout(() => s.end('ok'), number * 1000);
  if (what === 'big') return s.end(Buffer.alloc(Number(number), 'x'));
  if (what === 'hang') for (;;);
  if (what === 'die') process.kill(process.pid, 'SIGKILL');
  if (what === 'half') {
    s.writeHead(200, { 'Content-Length': 1000 });
    return s.write('x'.repeat(500), () => q.socket.destroy());
  }
  let size = 0;
  q.on('data', (d) => { size += d.length; });
  q.on('end', () => s.end(what === 'length' ? String(size) : 'ok'));
}).listen(0);
"#;

const RACK: &str = r#"
run lambda { |env|
  answer = lambda { |body| [200, { 'Content-Type' => 'text/plain', 'Content-Length' => body.bytesize.to_s }, [body]] }
  case env['PATH_INFO']
  when '/pid' then answer.($$.to_s)
  when %r{^/sleep/(.*)} then sleep($1.to_f); answer.('ok')
  when %r{^/big/(.*)} then answer.('x' * $1.to_i)
  when '/hang' then loop {}
  when '/length'
    size = 0
    while (piece = env['rack.input'].read(65536)) do size += piece.bytesize end
    answer.(size.to_s)
  else answer.('ok')
  end
}
"#;
