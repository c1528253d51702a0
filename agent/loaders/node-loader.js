'use strict';

// Load one Node application, whose own HTTP server serves the cabrank agent.
//
// The agent starts this file as a child process. One Unix socketpair is its standard input and output, and a pipe its
// standard error. Like every loader it takes four steps:
//
//   1. handshake  `!> I have control 1.0`; the agent answers with `key: value` lines and an empty line.
//   2. load       the startup file (`app.js`), as `node app.js` does.
//   3. ready      the first http.Server that calls listen() gets a Unix socket instead of its own address; then
//                 `!> Ready`, `!> socket: …`, `!> `.
//   4. serve      until standard input has a byte or ends: both ask the process to leave. The agent has no open requests
//                 by then.
//
// If the process ends before step 3, the loader sends `!> Error` and a text. Reasons are an exception, process.exit(), or
// an application that finishes without listening. The agent's timeout ends an application that waits for ever.
//
// The protocol is http_session: HTTP/1.1 over connections that the agent keeps and reuses. It has no password; the modes
// of the socket and its directory protect it.
//
// Applications have the global PhusionPassenger, as under Passenger:
//
//   PhusionPassenger.configure({ autoInstall: false })   do not use the first server that listens, but the one with
//   server.listen('passenger')                           this address (also '/passenger' and { path: 'passenger' }).

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

let options = null; // from the agent; null until the handshake is complete
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
      if (error.code === 'EPIPE') return; // the agent is gone; the end of standard input follows
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
  if (state === 'loading') state = 'leaving';
  process.exit(0);
}

function onInput(chunk) {
  if (options !== null) leave();
  received += chunk.toString('latin1'); // one character per byte, because a chunk may end within a character
  const end = received.indexOf('\n\n');
  if (end < 0) return;
  const [greeting, ...lines] = Buffer.from(received.slice(0, end), 'latin1').toString().split('\n');
  if (greeting !== `You have control ${PROTOCOL_VERSION}`) {
    fail(`The agent answered the handshake with ${JSON.stringify(greeting)}, but this loader speaks version ${PROTOCOL_VERSION}.`);
  }
  options = {};
  for (const line of lines) {
    const colon = line.indexOf(': ');
    if (colon > 0) options[line.slice(0, colon)] = line.slice(colon + 2);
  }
  if (received.length > end + 2) leave();
  // From here on only the application keeps the process alive. A process that finishes without listening ends.
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
  if (!options.generation_dir) fail('The handshake has no generation_dir, the directory for the socket.');
  const name = `node.${process.pid}-${randomBytes(4).toString('hex')}`;
  socketPath = path.resolve(options.generation_dir, 'backends', name);
  if (Buffer.byteLength(socketPath) > SOCKET_PATH_MAX) {
    fail(`The path ${socketPath} is longer than a Unix socket allows (${SOCKET_PATH_MAX} bytes). ` +
      'Set XDG_RUNTIME_DIR to a shorter directory.');
  }
  const startupFile = path.resolve(options.app_root || '.', options.startup_file || 'app.js');
  if (!fs.existsSync(startupFile)) {
    fail(`The startup file ${startupFile} does not exist. Create it, or name another file with --startup-file.`);
  }

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
  if (installed) {
    try {
      fs.unlinkSync(socketPath);
    } catch {
      // the agent has removed it already
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
    throw new Error("listen('passenger') was called, but another server of this application already serves the agent. " +
      'Call PhusionPassenger.configure({ autoInstall: false }) before the first listen().');
  }
  if (!explicit && (installed || !autoInstall)) return listenOfNet.apply(this, args);
  installed = true;
  return install(this, args.find((arg) => typeof arg === 'function'));
};

function install(server, callback) {
  // The agent keeps idle connections and decides when to close them. A server that closes one could do so while a request
  // is on its way, which then fails. This is an accessor, because applications set the property, also after listen().
  Object.defineProperty(server, 'keepAliveTimeout', { get: () => 0, set() {}, enumerable: true });
  // This time counts from accept, so it would also close a connection that the agent opened in advance.
  server.headersTimeout = 0;
  // The agent limits slow uploads. A limit that the application has chosen stays.
  if (server.requestTimeout === SERVER_REQUEST_TIMEOUT) server.requestTimeout = 0;

  listenOfNet.call(server, { path: socketPath, backlog: BACKLOG }, callback);
  // This runs after the application's own callback: if that fails, the application fails to start.
  server.once('listening', () => {
    fs.chmodSync(socketPath, 0o600);
    state = 'ready';
    say(`!> Ready\n!> socket: main;unix:${socketPath};http_session;0\n!> pid: ${process.pid}\n!> \n`);
  });
  return server;
}

// Ctrl-C reaches the whole process group of a terminal. The agent decides about the shutdown, or the application's own
// handler.
process.on('SIGINT', () => {});

listenToAgent();
say(`!> I have control ${PROTOCOL_VERSION}\n`);
