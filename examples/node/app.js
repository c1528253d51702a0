'use strict';

// A small application to try cabrank: each page shows one task of an application server.
//
//   cabrank start examples/node     several processes, restarts, recovery from crashes
//   node examples/node/app.js       the same pages from one process, on port 3000

const http = require('http');
const { setTimeout: sleep } = require('timers/promises');

let answered = 0;

const STYLE = `
:root { color-scheme: light dark }
body { font: 1rem/1.6 system-ui, sans-serif; max-width: 38rem; margin: 3rem auto; padding: 0 1rem }
h1 { font-size: 1.3rem } li { margin: .4rem 0 } code { font-size: .95em }
.facts { border-left: .25rem solid #8888; padding-left: 1rem }
`;

function page(title, body) {
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${title}</title><style>${STYLE}</style></head>
<body><h1>${title}</h1>${body}</body></html>
`;
}

function answer(response, status, contentType, body) {
  response.writeHead(status, { 'Content-Type': contentType, 'Content-Length': Buffer.byteLength(body) });
  response.end(body);
}

function index(request, response) {
  answer(response, 200, 'text/html; charset=utf-8', page('cabrank: Node example', `
<p class="facts">Process <strong>${process.pid}</strong> answered, Node ${process.version}.
It has answered <strong>${answered}</strong> ${answered === 1 ? 'request' : 'requests'}.</p>
<ul>
<li><a href="/slow?ms=2000">/slow?ms=2000</a>: answers after two seconds; other requests do not wait</li>
<li><a href="/stream">/stream</a>: ten lines, one every 200 ms</li>
<li><a href="/upload">/upload</a>: returns your upload</li>
<li><a href="/env">/env</a>: the request as the application sees it</li>
</ul>
<form method="post" action="/crash"><p><button>crash</button> kills the process that gets it. Reload this page, and another process
answers.</p></form>
<p>After a change of the code, run <code>touch tmp/restart.txt</code>.</p>`));
}

async function slow(request, response, query) {
  const wanted = query.get('ms') ?? '2000';
  if (!/^-?\d+$/.test(wanted)) {
    answer(response, 400, 'text/plain', 'ms must be a whole number\n');
    return;
  }
  const ms = Math.max(0, Math.min(Number(wanted), 60000));
  await sleep(ms);
  answer(response, 200, 'text/plain', `${process.pid} slept for ${ms} ms\n`);
}

function upload(request, response) {
  if (request.method === 'POST' || request.method === 'PUT') {
    const headers = {
      'Content-Type': request.headers['content-type'] || 'application/octet-stream',
      'X-Content-Type-Options': 'nosniff',
    };
    if (request.headers['content-length']) headers['Content-Length'] = request.headers['content-length'];
    response.writeHead(200, headers);
    request.on('error', () => response.destroy());
    request.pipe(response);
    return;
  }
  answer(response, 200, 'text/html; charset=utf-8', page('Upload', `
<form method="post" enctype="text/plain"><p><textarea name="text" rows="6" cols="50">Hello</textarea></p>
<p><button>Send</button></p></form>
<p>A large upload: <code>curl -T FILE http://…/upload | cmp - FILE</code></p>`));
}

function crash(request, response) {
  // A server may send a GET whose process has died to the next process, which would die as well.
  if (request.method !== 'POST') {
    answer(response, 405, 'text/plain', 'POST kills this process\n');
    return;
  }
  process.kill(process.pid, 'SIGKILL');
}

function env(request, response) {
  const { method, url, httpVersion, headers } = request;
  const facts = { pid: process.pid, method, url, httpVersion, headers };
  answer(response, 200, 'application/json', JSON.stringify(facts, null, 2) + '\n');
}

async function stream(request, response) {
  response.writeHead(200, { 'Content-Type': 'text/plain; charset=utf-8', 'X-Accel-Buffering': 'no' });
  for (let number = 1; number <= 10 && !response.destroyed; number += 1) {
    response.write(`${number} of 10 from process ${process.pid}\n`);
    if (number < 10) await sleep(200);
  }
  response.end();
}

const PAGES = new Map(Object.entries({
  '/': index, '/slow': slow, '/upload': upload, '/crash': crash, '/env': env, '/stream': stream,
}));

const app = http.createServer((request, response) => {
  answered += 1;
  const [path] = request.url.split('?', 1);
  const query = new URLSearchParams(request.url.slice(path.length));
  const handler = PAGES.get(path);
  if (handler === undefined) {
    answer(response, 404, 'text/html; charset=utf-8',
      page('Not found', '<p>This page does not exist. <a href="/">All pages</a></p>'));
    return;
  }
  handler(request, response, query);
});

app.listen(process.env.PORT || 3000, '127.0.0.1', () => {
  console.log(`listening on port ${app.address().port}`); // under an application server, clients have another one
});
