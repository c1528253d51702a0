'use strict';

// Load one Node application, whose own HTTP server takes the requests of the cabrank server.
//
// The server starts this file as a child process. One Unix socketpair is its standard input and output, and a pipe its
// standard error. Like every loader it takes four steps:
//
//   1. handshake  `!> I have control 1.0`; the server answers with `key: value` lines and an empty line.
//   2. load       the startup file (`app.js`), as `node app.js` does.
//   3. ready      the first http.Server that calls listen() gets a Unix socket instead of its own address; then
//                 `!> Ready`, `!> socket: …`, `!> `.
//   4. serve      until standard input has a byte or ends: both ask the process to leave. The server has no open requests
//                 by then. The application's own handlers run before the process exits.
//
// If the process ends before step 3, the loader sends `!> Error` and a text. Reasons are an exception, process.exit(), or
// an application that finishes without listening. The server's timeout ends an application that waits for ever.
//
// The protocol is http_session: HTTP/1.1 over connections that the server keeps and reuses. It has no password; the modes
// of the socket and its directory protect it.
//
// Applications have the global PhusionPassenger, as under Passenger:
//
//   PhusionPassenger.configure({ autoInstall: false })   do not use the first server that listens, but the one with
//   server.listen('passenger')                           this address (also '/passenger' and { path: 'passenger' }).
//   PhusionPassenger.on('exit', fn)                      call `fn` when the process is asked to leave.
//
// A process that is asked to leave runs the handlers of the first kind that the application has: 'exit' of
// PhusionPassenger, `process.on('message')` with 'shutdown', or those of SIGTERM or SIGINT (node-pm2.js). The handler may be asynchronous:
// the process exits when the handler calls process.exit(), or when no timer, socket or other work is left. The server's
// --drain-timeout (--shutdown-timeout at a stop; then SIGQUIT, SIGTERM and SIGKILL) bounds it. Without any handler the process exits at once.
//
// `socket.remoteAddress` is the client's address, which the server writes in front of each target (node-client.js). Several
// clients share a socket, so it belongs to the socket's latest request. An earlier request keeps its own (node-late.js).
//
// SIGQUIT writes the requests in progress and what the process waits for to standard error. While the main thread is busy
// no signal handler runs. If the handshake has `max_request_time` (in ms), a worker thread watches the main thread, and
// writes its stack to standard error when it is busy for half that time.

const fs = require('fs');
const http = require('http');
const Module = require('module');
const path = require('path');
const { EventEmitter } = require('events');
const { randomBytes } = require('crypto');
const { inspect } = require('util');
const { begin, guard, guardServer, release } = require('./node-kept.js');
const { CLIENT, LATEST, setPassword } = require('./node-client.js');
const { noteLatest } = require('./node-late.js');
const { noteAsked } = require('./node-listen.js');
const { emitSignal } = require('./node-pm2.js');
const { reportUnserved } = require('./node-unserved.js');

const PROTOCOL_VERSION = '1.0';
const HEAD_MAX = 2 << 20; // above the largest --max-header-size
const SOCKET_PATH_MAX = 107; // sun_path has 108 bytes, one of them the final NUL
const BACKLOG = 1024;
const SERVER_REQUEST_TIMEOUT = 300000; // the default of http.Server

let options = null; // from the server; null until the handshake is complete
let state = 'loading'; // → 'ready' | 'failed' | 'leaving'
let fatalError; // the exception that is about to end this process
let socketPath;

// A single write keeps the application's output out of the block, and the newline in front ends an unfinished line of the
// application. It bypasses process.stdout, because it must also work while the process exits.
function say(text) {
  let data = Buffer.from('\n' + text);
  while (data.length > 0) {
    try {
      data = data.subarray(fs.writeSync(1, data));
    } catch (error) {
      if (error.code === 'EPIPE') return; // the server is gone; the end of standard input follows
      if (error.code !== 'EAGAIN') throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
    }
  }
}

function fail(text) {
  state = 'failed';
  say(`!> Error\n!> \n${text}\n`);
  process.exit(1);
}

// --- Handshake and request to leave ----------------------------------------------------------------------------------

let received = '';

function leave() {
  if (state === 'leaving') return; // a byte and the end of input ask for the same
  const wasReady = state === 'ready';
  state = 'leaving';
  if (!wasReady) process.exit(0);
  // A handler may close the server, or may not know of it: it no longer keeps the process alive.
  served.unref();
  if (PhusionPassenger.emit('exit')) return;
  if (process.emit('message', 'shutdown')) return;
  if (emitSignal()) return;
  process.exit(0);
}

function onInput(chunk) {
  if (options !== null) leave();
  received += chunk.toString('latin1'); // one character per byte, because a chunk may end within a character
  const end = received.indexOf('\n\n');
  if (end < 0) return;
  const [greeting, ...lines] = Buffer.from(received.slice(0, end), 'latin1').toString().split('\n');
  if (greeting !== `You have control ${PROTOCOL_VERSION}`) {
    fail(`The server answered the handshake with ${JSON.stringify(greeting)}, but this loader speaks version ${PROTOCOL_VERSION}.`);
  }
  options = {};
  for (const line of lines) {
    const colon = line.indexOf(': ');
    if (colon > 0) options[line.slice(0, colon)] = line.slice(colon + 2);
  }
  setPassword(options.connect_password);
  delete options.connect_password;
  if (received.length > end + 2) leave();
  // From here on only the application keeps the process alive. A process that finishes without listening ends.
  if (process.stdin.unref) process.stdin.unref();
  load();
}

function listenForCabrank() {
  process.stdin.on('data', onInput);
  process.stdin.on('end', leave);
  process.stdin.on('error', leave);
}

// --- Loading -----------------------------------------------------------------------------------------------------------

function newSocketPath() {
  const name = `node.${process.pid}-${randomBytes(4).toString('hex')}`;
  return path.resolve(options.generation_dir, 'backends', name);
}

function load() {
  if (!options.generation_dir) fail('The handshake has no generation_dir, the directory for the socket.');
  socketPath = newSocketPath();
  if (Buffer.byteLength(socketPath) > SOCKET_PATH_MAX) {
    fail(`The path ${socketPath} is longer than a Unix socket allows (${SOCKET_PATH_MAX} bytes). ` +
      'Set XDG_RUNTIME_DIR to a shorter directory.');
  }
  const startupFile = path.resolve(options.app_root || '.', options.startup_file || 'app.js');
  if (!fs.existsSync(startupFile)) {
    fail(`The startup file ${startupFile} does not exist. Create it, or name another file with --startup-file.`);
  }

  if (options.max_request_time > 0) watchMainThread(Number(options.max_request_time));
  // Like `node app.js`, runMain makes the file the main module (`require.main === module`, without `module.parent`), and
  // supports ES modules.
  process.argv[1] = startupFile;
  try {
    Module.runMain(startupFile);
  } catch (error) {
    fail(describe(error));
  }
}

function describe(error) {
  return error instanceof Error ? inspect(error) : `The application threw ${inspect(error)}.`;
}

// Runs for an uncaught exception before Node's default (print it and exit) or the application's own handler.
process.on('uncaughtExceptionMonitor', (error) => {
  fatalError = error;
});

process.on('exit', (code) => {
  if (served !== undefined) {
    try {
      fs.unlinkSync(socketPath);
    } catch {
      // the server has removed it already
    }
  }
  if (state === 'loading' && options !== null) {
    state = 'failed';
    const reason = fatalError === undefined ? '' : `\n${describe(fatalError)}`;
    say(`!> Error\n!> \nThe application exited with code ${code} before it called listen().${reason}\n`);
    process.exitCode = code || 1;
  }
});

// --- Taking over the server --------------------------------------------------------------------------------------------

let autoInstall = true;
let served; // the application's server that takes the requests
let servedPort; // the port that the application asked for
const listenOfNet = http.Server.prototype.listen; // inherited from net.Server

global.PhusionPassenger = Object.assign(new EventEmitter(), {
  configure(settings) {
    if (settings && settings.autoInstall !== undefined) autoInstall = Boolean(settings.autoInstall);
  },
});

function asksForCabrank(address) {
  const name = address !== null && typeof address === 'object' ? address.path : address;
  return name === 'passenger' || name === '/passenger';
}

// Returns the port that the arguments of listen() name, or undefined.
function portOf([first]) {
  const port = Number(first !== null && typeof first === 'object' ? first.port : first);
  return port > 0 ? port : undefined;
}

http.Server.prototype.listen = function listen(...args) {
  const explicit = asksForCabrank(args[0]);
  const callback = args.find((arg) => typeof arg === 'function');
  noteAsked(this, args, explicit);
  if (served === undefined && (explicit || autoInstall)) {
    served = this;
    servedPort = portOf(args);
    return install(this, callback);
  }
  if (served === this) return listenOfNet.call(this, { path: socketPath, backlog: BACKLOG }, callback);
  if (explicit) {
    throw new Error("listen('passenger') was called, but another server of this application already takes the requests. " +
      'Call PhusionPassenger.configure({ autoInstall: false }) before the first listen().');
  }
  if (!autoInstall) return listenOfNet.apply(this, args);
  return listenPrivately(this, portOf(args), callback);
};

// Several processes of an application would compete for a port. Such a server listens, on a socket that has no name.
// Fastify has such servers: for 'localhost' it listens on ::1 and 127.0.0.1.
function listenPrivately(server, port, callback) {
  if (port !== undefined && port !== servedPort) {
    console.error(`The application's server for port ${port} does not open it, because cabrank sends its requests to the first server ` +
      'that listens. To open it, call PhusionPassenger.configure({ autoInstall: false }) and listen(\'passenger\').');
  }
  const privatePath = newSocketPath();
  server.once('listening', () => fs.unlink(privatePath, () => {}));
  return listenOfNet.call(server, { path: privatePath }, callback);
}

function install(server, callback) {
  // cabrank keeps idle connections and decides when to close them. A server that closes or refuses one could do so while a request
  // is on its way, which then fails. These are accessors, because applications set the properties, also after listen().
  // The time of `headersTimeout` counts from accept, so it would also close a connection that cabrank opened in advance.
  for (const name of ['keepAliveTimeout', 'headersTimeout', 'maxRequestsPerSocket']) {
    Object.defineProperty(server, name, { get: () => 0, set() {}, enumerable: true });
  }
  // Since version 22, 0 would refuse each connection.
  Object.defineProperty(server, 'maxConnections', { get: () => undefined, set() {}, enumerable: true });
  guardServer(server);
  // The limits of Node, 16 KiB and 1000 fields, are lower than those of cabrank, which has let the head pass.
  server.maxHeaderSize ??= HEAD_MAX;
  server.maxHeadersCount ??= 0;
  // cabrank limits slow uploads. A limit that the application has chosen stays.
  if (server.requestTimeout === SERVER_REQUEST_TIMEOUT) server.requestTimeout = 0;
  noteRequests(server);

  listenOfNet.call(server, { path: socketPath, backlog: BACKLOG }, callback);
  // This runs after the application's own callback: if that fails, the application fails to start.
  server.once('listening', () => {
    fs.chmodSync(socketPath, 0o600);
    state = 'ready';
    say(`!> Ready\n!> socket: main;unix:${socketPath};http_session;0\n!> takes_origin: true\n!> pid: ${process.pid}\n!> \n`);
  });
  return server;
}

// --- Requests in progress ------------------------------------------------------------------------------------------------

const SINCE = Symbol('time of the latest request');
const NOTED = Symbol('a request that was emitted before');
const connections = new Set();

// Notes on each socket its latest request. `emit` sees requests, upgrades and expectations alike. A listener would not:
// a listener of 'upgrade' changes what the server does with upgrades, and applications replace those of 'request'.
function noteRequests(server) {
  const { emit } = server;
  server.emit = function emitAndNote(event, first, ...rest) {
    if (first instanceof http.IncomingMessage) {
      release(event, first, first.socket);
      begin(first, rest[0]);
      // The application may emit a request again, when the socket carries another client's.
      if (first[NOTED] !== true) {
        first[NOTED] = true;
        noteLatest(first.socket, first);
        first.socket[SINCE] = Date.now();
      }
    } else if (event === 'connection') {
      const descriptor = first._handle ? first._handle.fd : -1;
      if (descriptor >= 0 && descriptor <= 2) return restoreStream(first, descriptor);
      if (connections.has(first)) return true; // the application emits it again: Node would read the socket twice
      connections.add(first);
      Object.defineProperties(first, CLIENT);
      first.once('close', () => connections.delete(first));
      const before = new Set(Object.getOwnPropertyNames(first));
      const result = emit.call(this, event, first, ...rest);
      guard(first, before);
      return result;
    } else if (event === 'clientError') {
      release(event, first, rest[0]);
    }
    return emit.call(this, event, first, ...rest);
  };
}

// Ends a connection that has the number of a standard stream, because the application has closed that. `console.log` would
// write to a client. The null device gets the number. Node itself never closes one of these numbers.
function restoreStream(socket, descriptor) {
  socket.once('close', () => {
    fs.closeSync(descriptor);
    fs.openSync('/dev/null', 'r+'); // gets the lowest free number
  });
  socket.destroy();
  return true;
}

// Not process.report: its reports have the environment, which holds secrets.
process.on('SIGQUIT', () => {
  const lines = [`SIGQUIT: process ${process.pid}, Node ${process.version}, up for ${Math.round(process.uptime())} s`];
  for (const socket of connections) {
    const request = socket[LATEST];
    if (request === undefined || (socket._httpMessage === null && request.complete)) continue;
    lines.push(`  in progress for ${(Date.now() - socket[SINCE]) / 1000} s: ${request.method} ${request.url}`);
  }
  const counts = new Map();
  for (const kind of process.getActiveResourcesInfo()) counts.set(kind, (counts.get(kind) || 0) + 1);
  lines.push(`  waits for: ${[...counts].map(([kind, count]) => `${count} ${kind}`).join(', ')}`);
  fs.writeSync(2, lines.join('\n') + '\n');
});

// --- A busy main thread --------------------------------------------------------------------------------------------------

// Runs in the worker thread. A thread of its own can interrupt the main thread as a debugger does.
function watch() {
  const { Session } = require('inspector');
  const { writeSync } = require('fs');
  const { workerData: { beats, period } } = require('worker_threads');
  let seen = -1;
  let missed = 0;
  setInterval(() => {
    const now = Atomics.load(beats, 0);
    missed = now === seen ? missed + 1 : 0;
    seen = now;
    if (missed !== 5) return; // once for each time that the thread is busy
    const session = new Session();
    session.connectToMainThread();
    const urls = new Map(); // call frames have none in some versions
    session.on('Debugger.scriptParsed', ({ params: { scriptId, url } }) => urls.set(scriptId, url));
    session.once('Debugger.paused', ({ params: { callFrames } }) => {
      const frames = callFrames.map(({ functionName, location: { scriptId, lineNumber, columnNumber } }) =>
        `    at ${functionName || '<anonymous>'} (${urls.get(scriptId)}:${lineNumber + 1}:${columnNumber + 1})\n`);
      writeSync(2, `The main thread has been busy for ${(missed * period) / 1000} s:\n${frames.join('')}`);
      session.post('Debugger.resume');
      session.disconnect();
    });
    session.post('Debugger.enable');
    session.post('Debugger.pause');
  }, period);
}

function watchMainThread(maxRequestTime) {
  const { Worker } = require('worker_threads');
  const period = Math.max(20, maxRequestTime / 10);
  const beats = new Int32Array(new SharedArrayBuffer(4));
  setInterval(() => Atomics.add(beats, 0, 1), period / 2).unref();
  new Worker(`(${watch})()`, { eval: true, execArgv: [], workerData: { beats, period } }).unref();
}

reportUnserved(() => state === 'loading' && served === undefined && autoInstall, fail);
listenForCabrank();
say(`!> I have control ${PROTOCOL_VERSION}\n`);
