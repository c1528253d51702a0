'use strict';

// Load one Node application and let the cabrank agent talk to its own HTTP server.
//
// The agent starts this file as a child process, with one Unix socketpair as its standard input and output and a pipe as
// its standard error. The steps, as for every loader:
//
//   1. handshake  `!> I have control 1.0`; the agent answers with `key: value` lines and an empty line.
//   2. load       the startup file (`app.js`), as if it had been given to `node` itself.
//   3. ready      the application's first http.Server that calls listen() gets a Unix socket instead of what it asked for;
//                 then `!> Ready`, `!> socket: …`, `!> `.
//   4. serve      until standard input has a byte or ends: both mean "leave", and the agent has no requests open by then.
//
// Whatever ends the process before step 3 (an exception, process.exit(), an application that does not listen and has
// nothing left to wait for) is answered with `!> Error` and a text. One that waits for ever is for the agent's time-out.
//
// The protocol is http_session: HTTP/1.1 over connections that the agent keeps and uses again. It knows no password; what
// protects the socket is its mode and the directory that it is in.
//
// For applications there is the global PhusionPassenger with the meaning that Passenger gives it:
//
//   PhusionPassenger.configure({ autoInstall: false })   do not take the first server that listens, but the one with
//   server.listen('passenger')                           this address ('/passenger' and { path: 'passenger' } as well).

const fs = require('fs');
const http = require('http');
const Module = require('module');
const path = require('path');
const { randomBytes } = require('crypto');
const { inspect } = require('util');

const PROTOCOL_VERSION = '1.0';
const SOCKET_PATH_MAX = 107; // sun_path has 108 bytes, one of them the final NUL
const BACKLOG = 1024;
const SERVER_REQUEST_TIMEOUT = 300000; // the default of http.Server

let options = null; // from the agent; null until the handshake is over
let state = 'loading'; // → 'ready' | 'failed' | 'leaving'
let fatalError; // the exception that is about to end this process
let socketPath;

// One write, so that the application's output cannot land inside a block, and with a newline in front, because the
// application may have left an unfinished line. Not through process.stdout: this must also work while the process exits.
function say(text) {
  let data = Buffer.from('\n' + text);
  while (data.length > 0) {
    try {
      data = data.subarray(fs.writeSync(1, data));
    } catch (error) {
      if (error.code === 'EPIPE') return; // the agent is gone; the end of standard input says so too
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

// --- Handshake and the word to leave ---------------------------------------------------------------------------------

let received = '';

function leave() {
  if (state === 'loading') state = 'leaving';
  process.exit(0);
}

function onInput(chunk) {
  if (options !== null) leave();
  received += chunk.toString('latin1'); // one character a byte, so that a cut inside a character does no harm
  const end = received.indexOf('\n\n');
  if (end < 0) return;
  const [greeting, ...lines] = Buffer.from(received.slice(0, end), 'latin1').toString().split('\n');
  if (greeting !== `You have control ${PROTOCOL_VERSION}`) {
    fail(`The agent answered the handshake with ${JSON.stringify(greeting)}; this loader speaks ${PROTOCOL_VERSION}.`);
  }
  options = {};
  for (const line of lines) {
    const colon = line.indexOf(': ');
    if (colon > 0) options[line.slice(0, colon)] = line.slice(colon + 2);
  }
  if (received.length > end + 2) leave();
  // From here on only the application keeps the process alive: if it has nothing to do and does not listen, it ends.
  if (process.stdin.unref) process.stdin.unref();
  load();
}

function listenToAgent() {
  process.stdin.on('data', onInput);
  process.stdin.on('end', leave);
  process.stdin.on('error', leave);
}

// --- Loading -----------------------------------------------------------------------------------------------------------

function load() {
  if (!options.generation_dir) fail('The agent gave no generation_dir to listen in.');
  const name = `node.${process.pid}-${randomBytes(4).toString('hex')}`;
  socketPath = path.resolve(options.generation_dir, 'backends', name);
  if (Buffer.byteLength(socketPath) > SOCKET_PATH_MAX) {
    fail(`The path ${socketPath} is longer than a Unix socket may have (${SOCKET_PATH_MAX} bytes). ` +
      'Put the instance directory elsewhere.');
  }
  const startupFile = path.resolve(options.app_root || '.', options.startup_file || 'app.js');
  if (!fs.existsSync(startupFile)) fail(`There is no startup file ${startupFile}.`);

  // runMain is what `node app.js` does: the file becomes the main module (`require.main === module`, no
  // `module.parent`), and ES modules work too.
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
  if (installed) {
    try {
      fs.unlinkSync(socketPath);
    } catch {
      // the agent was quicker
    }
  }
  if (state === 'loading' && options !== null) {
    state = 'failed';
    const reason = fatalError === undefined ? '' : `\n${describe(fatalError)}`;
    say(`!> Error\n!> \nThe application ended with code ${code} before it called listen().${reason}\n`);
    process.exitCode = code || 1;
  }
});

// --- Taking over the server --------------------------------------------------------------------------------------------

let autoInstall = true;
let installed = false;
const listenOfNet = http.Server.prototype.listen; // inherited from net.Server

global.PhusionPassenger = {
  configure(settings) {
    if (settings && settings.autoInstall !== undefined) autoInstall = Boolean(settings.autoInstall);
  },
};

function asksForAgent(address) {
  const name = address !== null && typeof address === 'object' ? address.path : address;
  return name === 'passenger' || name === '/passenger';
}

http.Server.prototype.listen = function listen(...args) {
  const explicit = asksForAgent(args[0]);
  if (explicit && installed) {
    throw new Error("listen('passenger') was called, but another server of this application serves the agent already. " +
      'Call PhusionPassenger.configure({ autoInstall: false }) before the first listen().');
  }
  if (!explicit && (installed || !autoInstall)) return listenOfNet.apply(this, args);
  installed = true;
  return install(this, args.find((arg) => typeof arg === 'function'));
};

function install(server, callback) {
  // The agent keeps idle connections and decides when they go. A server that closes one on its own may do so at the very
  // moment a request is on its way, which then fails. An accessor, because applications set this one, also after listen().
  Object.defineProperty(server, 'keepAliveTimeout', { get: () => 0, set() {}, enumerable: true });
  // Counts from accept, so it would also close a connection that the agent has opened ahead of need.
  server.headersTimeout = 0;
  // Slow uploads are the agent's to judge; a limit that the application has chosen stays.
  if (server.requestTimeout === SERVER_REQUEST_TIMEOUT) server.requestTimeout = 0;

  listenOfNet.call(server, { path: socketPath, backlog: BACKLOG }, callback);
  // After the application's own callback, whose failure should be one to start.
  server.once('listening', () => {
    fs.chmodSync(socketPath, 0o600);
    state = 'ready';
    say(`!> Ready\n!> socket: main;unix:${socketPath};http_session;0\n!> pid: ${process.pid}\n!> \n`);
  });
  return server;
}

// Ctrl-C reaches the whole process group of a terminal; what follows from it the agent decides, or the application, if it
// has a handler of its own.
process.on('SIGINT', () => {});

listenToAgent();
say(`!> I have control ${PROTOCOL_VERSION}\n`);
