'use strict';

// The refusal of a request that the application will not see.
//
// The server sends a request to an idle connection at any moment, and the connection may be ending: because the application has ended
// its socket, or because an exception has left Node in doubt. The server does not repeat a request that is not safe, unless it knows
// that the application has not seen it. So a connection without a request ends with the byte NAK, in place of an answer. From then on
// none begins on it.
//
// An answer counts as whole when its end was written. While a connection has an answer that is not whole, or that ends with the
// connection, only a request that has come is refused: it shows that the server has the whole answer. Otherwise the byte would be a part of it.

const fs = require('fs');

const NAK = Buffer.from([0x15]);
const REQUESTS = Symbol('the requests of the connection'); // an object, because the application may freeze the socket

// Watches the requests of a connection, and refuses the one that meets its end.
function watch(socket) {
  const { _final, _destroy } = socket;
  socket[REQUESTS] = { begun: 0, whole: 0, isRefused: false };
  socket._final = function endAndRefuse(callback) {
    refuse(this);
    _final.call(this, callback);
  };
  socket._destroy = function destroyAndRefuse(error, callback) {
    refuse(this);
    _destroy.call(this, error, callback);
  };
}

// Begins a request. Returns false if it is refused already.
function mayBegin(socket) {
  const requests = socket[REQUESTS];
  if (requests.isRefused) return false;
  requests.begun++;
  return true;
}

// Returns whether a request has begun whose answer has no end yet.
function isAnswering(socket) {
  return socket[REQUESTS].begun !== socket[REQUESTS].whole;
}

// Returns whether the stream has bytes that the system has not got. It counts those of a write in progress, too, until it learns of its end.
function hasBytes(socket) {
  const { length, writing, writelen } = socket._writableState;
  return length > 0 && !(writing === true && writelen === length);
}

// Refuses nothing on a connection that the application has got for itself.
function release(socket) {
  socket[REQUESTS].isRefused = true;
}

// Refuses the request that may follow the only answer of such a connection.
function watchAgain(socket) {
  socket[REQUESTS].isRefused = false;
  socket[REQUESTS].whole = socket[REQUESTS].begun;
}

// Notes that the end of an answer was written.
function noteWhole(socket) {
  const requests = socket[REQUESTS];
  if (requests) requests.whole++; // an earlier request has a socket of its own
}

// Refuses the request that the server may have sent, unless an answer is on its way. A request that has come shows that the server
// has the whole answer before, whatever the stream knows of it.
function refuse(socket, hasCome = false) {
  const requests = socket[REQUESTS];
  const handle = socket._handle;
  if (requests.isRefused || !handle || handle.writeQueueSize > 0) return;
  if (!hasCome && (isAnswering(socket) || hasBytes(socket))) return;
  requests.isRefused = true;
  try {
    fs.writeSync(handle.fd, NAK); // the stream may have ended
  } catch {
    // the server has closed the connection
  }
}

module.exports = { mayBegin, noteWhole, refuse, release, watch, watchAgain };
