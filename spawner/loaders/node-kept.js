'use strict';

// What outlives an answer on the connections to the server.
//
// A connection carries the requests of one client after another, and the application can keep hold of each object of a
// request. Node itself stops a response after its end, and a request gets no byte of the next one. These rules are added:
//
//   - A body never has more bytes than its Content-Length: the rest would begin the next client's answer. A body with fewer
//     bytes ends the connection, for the next answer would complete it.
//   - The application cannot write to the socket, which carries the answers of all clients. A write ends the connection.
//   - An application that reads the socket would read the next client's request. The connection ends with the present answer.
//
// A socket that the application gets by 'upgrade', 'connect' or 'clientError' is its own: the server sends no request there.

const net = require('net');
const { OutgoingMessage, ServerResponse } = require('http');

const KEPT = Symbol('carries one request after another');
const LAST = Symbol('ends with the present answer');
const SENT = Symbol('bytes of the body');
const OWN = new Set(['upgrade', 'connect', 'clientError']);

let isAnswering = false; // a response writes to its socket

const { _writeRaw, _flushOutput, _send } = OutgoingMessage.prototype;
const { _finish } = ServerResponse.prototype;

OutgoingMessage.prototype._writeRaw = function writeRaw(data, encoding, callback, size) {
  const before = isAnswering;
  isAnswering = true;
  try {
    return _writeRaw.call(this, data, encoding, callback, size);
  } finally {
    isAnswering = before;
  }
};

OutgoingMessage.prototype._flushOutput = function flushOutput(socket) {
  const before = isAnswering;
  isAnswering = true;
  try {
    return _flushOutput.call(this, socket);
  } finally {
    isAnswering = before;
  }
};

// Returns the declared length of the body of an answer to the server, or undefined.
function declaredOf(message) {
  // An answer that waits for the one before has no socket yet.
  const socket = message.socket || (message.req && message.req.socket);
  if (!socket || socket[KEPT] !== true) return undefined;
  if (!message._hasBody || message.chunkedEncoding || typeof message._contentLength !== 'number') return undefined;
  return message._contentLength;
}

OutgoingMessage.prototype._send = function send(data, encoding, callback, size) {
  const declared = data.length > 0 ? declaredOf(this) : undefined;
  if (declared === undefined) return _send.call(this, data, encoding, callback, size);
  const bytes = typeof data === 'string' ? Buffer.byteLength(data, encoding) : data.byteLength;
  const sent = this[SENT] || 0;
  if (sent + bytes > declared) {
    data = (typeof data === 'string' ? Buffer.from(data, encoding) : data).subarray(0, declared - sent);
    this[SENT] = declared;
    return _send.call(this, data, encoding, callback, data.length);
  }
  this[SENT] = sent + bytes;
  return _send.call(this, data, encoding, callback, size);
};

ServerResponse.prototype._finish = function finish() {
  const { socket } = this;
  const declared = declaredOf(this);
  _finish.call(this);
  if (!socket || socket[KEPT] !== true) return;
  if (socket[LAST] || (declared !== undefined && (this[SENT] || 0) < declared)) socket.destroySoon();
};

function close(socket, what) {
  if (socket.destroyed) return;
  console.error(`node-loader: the application ${what} the socket of a request. It carries the requests of other clients, too, so ` +
    'that the loader has closed it. Use the request and the response, or an upgrade.');
  socket.destroy();
}

function endWithAnswer(socket) {
  const answer = socket._httpMessage;
  if (!answer) return close(socket, 'reads');
  socket[LAST] = true;
  if (!answer.headersSent) answer.shouldKeepAlive = false;
}

// Guards a connection to the server. Node has prepared the socket for HTTP, and the application may have wrapped its methods.
function guard(socket) {
  if (!(socket instanceof net.Socket)) return; // the application has made this connection itself
  socket[KEPT] = true;
  const { write, end } = socket;
  socket.write = function writeOfAnswer(data, encoding, callback) {
    if (isAnswering || this[KEPT] !== true) return write.call(this, data, encoding, callback);
    close(this, 'wrote to');
    return false;
  };
  socket.end = function endOfConnection(data, encoding, callback) {
    const hasData = data !== undefined && data !== null && typeof data !== 'function';
    if (!hasData || isAnswering || this[KEPT] !== true) return end.call(this, data, encoding, callback);
    close(this, 'wrote to');
    return this;
  };
  for (const name of ['on', 'addListener', 'prependListener']) {
    const add = socket[name];
    socket[name] = function addAndNote(event, listener) {
      if ((event === 'data' || event === 'readable') && this[KEPT] === true) endWithAnswer(this);
      return add.call(this, event, listener);
    };
  }
}

// Gives a socket to the application, because of this event.
function release(event, socket) {
  if (OWN.has(event) && socket) socket[KEPT] = false;
}

module.exports = { guard, release };
