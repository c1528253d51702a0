'use strict';

// Applications that would boot without end: no http.Server of theirs listens in this process.
//
//   - An application that forks workers (`cluster`) lets those listen.
//   - A server for HTTPS or HTTP/2 opens its own port, and cabrank speaks HTTP/1.1.
//
// Both are reported at once. An application that also has an http.Server has until the next turn of the event loop to let it listen.

const cluster = require('cluster');
const Module = require('module');
const net = require('net');

const FORKS = 'The application calls cluster.fork(): its workers would listen, and not the process that cabrank has started. cabrank starts ' +
  'the processes itself, and replaces those that end (--min-instances N). Let the application listen without `cluster`, name the file of the ' +
  'workers with --startup-file, or start the application as it is with --start-command.';

// Returns what kind of server listens that cannot take requests of cabrank, or undefined. A module that the application has not
// loaded has none.
function kindOf(server) {
  if (typeof server.setSecureContext === 'function' && server instanceof require('https').Server) return 'for HTTPS';
  const { name } = server.constructor || {};
  return name === 'Http2Server' || name === 'Http2SecureServer' ? 'for HTTP/2' : undefined;
}

// Reports such an application by `fail`, as long as `isBooting()` holds.
function reportUnserved(isBooting, fail) {
  cluster.fork = function fork() {
    if (isBooting()) fail(FORKS);
    throw new Error(FORKS);
  };
  Module.syncBuiltinESMExports();

  const { listen } = net.Server.prototype;
  net.Server.prototype.listen = function listenUnlessUnserved(...args) {
    const kind = isBooting() ? kindOf(this) : undefined;
    if (kind === undefined) return listen.apply(this, args);
    setImmediate(() => {
      if (isBooting()) {
        fail(`The application listens with a server ${kind}, and cabrank sends its requests to the first http.Server that listens. cabrank ` +
          'speaks HTTP/1.1 without TLS: let the application use http.createServer(), and a proxy such as nginx do the rest. If the application ' +
          'has an http.Server, too, let that one listen first.');
      }
      listen.apply(this, args);
    });
    return this;
  };
}

module.exports = { reportUnserved };
