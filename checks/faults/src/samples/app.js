const http = require('http');
http.createServer((q, s) => {
  const [, what, number] = q.url.split('/');
  if (what === 'pid') return s.end(String(process.pid));
  if (what === 'time') return s.end(String(Math.floor(Date.now() / 1000)));
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
