'use strict';

// Guards of the connections to the server: nothing of a request outlives its answer.
//
// A connection carries the requests of one client after another, and the application can keep hold of each object of a
// request. Node itself stops a response after its end, and a request gets no byte of the next one. These rules are added to those of
// node-answer.js:
//
//   - A buffer that shrinks before its bytes have left ends the connection.
//   - The application cannot write to the socket, which carries the answers of all clients. A write ends the connection.
//   - Bytes that the application puts into the socket would be a request. They end the connection.
//   - An application that reads the socket would read the next client's request. The connection ends with the present answer.
//   - The application cannot pause the socket: `request.pause()` pauses its own request. When it ends the socket, the
//     connection is closed at once, before another request comes. `request.destroy()` ends it until the answer has left.
//   - Timeouts of a request end with its answer. A request begins with the timeout that the socket had as a new connection.
//     An idle connection has none, and no other call or setting of the server closes it.
//   - A cork that the application puts on the socket ends with the turn of the event loop, and the listeners of Node stay.
//
// A socket that the application gets by 'upgrade', 'connect' or 'clientError' is its own: the server sends no request there.

const net = require('net');
const { IncomingMessage, ServerResponse } = require('http');
const {
  KEPT, LAST, ENDING, CLOSING, REQUEST, IS_HEAD, TORN, HELD_BACK, writing, apart, close, closeSoon, resumeReading, socketOf,
} = require('./node-answer.js');
const { endWithAnswer, watchExceptions } = require('./node-exceptions.js');
const { takeOrigin } = require('./node-client.js');
const { noteAnswered, noteLatest } = require('./node-late.js');
const refusal = require('./node-refusal.js');
const { began, begins, ended, note, noteListener } = require('./node-traces.js');

const TIMEOUT = Symbol('the timeout of the connection');
const LISTENERS = Symbol('the listeners of that timeout');
const OWN = new Set(['upgrade', 'connect', 'clientError']);
const LASTING = new Set(['data', 'end', 'close', 'drain']);
const OF_NODE = /^(bound )?(socketOn|onReadableStreamEnd$)/; // names of listeners
const KEEPS = /\r\ncontent-length:/i; // another answer lasts until the end of its connection
const CLOSES = /\r\nconnection: *close/i;
const SHRANK = 'shrank a buffer that is on its way to';

const kept = new Set(); // the open connections
const { detachSocket } = ServerResponse.prototype;

ServerResponse.prototype.detachSocket = function detachAndSettle(socket) {
  if (socket[TORN] && socket._httpMessage !== this) return; // its callback has run before
  detachSocket.call(this, socket);
  if (socket[KEPT] !== true) return;
  settle(socket, 0);
  noteAnswered(socket, this[REQUEST]);
  ended(socket, this);
};

// Takes back the timeouts that a request has set, and gives back the listeners that it has removed. An idle connection has no timeout:
// its end could meet a request that the server has sent already.
function settle(socket, timeout) {
  if ((socket.timeout || 0) !== timeout) socket.setTimeout(timeout);
  const lasting = socket[LISTENERS];
  const present = socket.rawListeners('timeout');
  if (present.length === lasting.length && present.every((listener, at) => listener === lasting[at])) return;
  for (const listener of present) {
    if (!lasting.includes(listener)) socket.removeListener('timeout', listener);
  }
  for (const listener of lasting) {
    if (!present.includes(listener) && OF_NODE.test(listener.name)) socket.on('timeout', listener);
  }
}

const setTimeoutOfRequest = IncomingMessage.prototype.setTimeout;

IncomingMessage.prototype.setTimeout = function setTimeoutUntilAnswered(milliseconds, callback) {
  const { socket } = this;
  if (socket && socket[KEPT] === true) {
    const answer = socket._httpMessage;
    if (!answer || answer.finished || answer[REQUEST] !== this) return this; // it is answered
  }
  return setTimeoutOfRequest.call(this, milliseconds, callback);
};

const destroyRequest = IncomingMessage.prototype._destroy;

// A request that was answered may have a body that the application has not read. Node would end its socket.
IncomingMessage.prototype._destroy = function destroyUntilAnswered(...args) {
  const socket = socketOf(this);
  const isKept = Boolean(socket) && socket[KEPT] === true;
  if (!isKept || !this.complete || (socket._httpMessage && socket._httpMessage[REQUEST] === this)) return destroyRequest.apply(this, args);
  if (!Reflect.set(this, 'socket', null)) return process.nextTick(args[1], args[0]); // the application has fixed it
  try {
    return destroyRequest.apply(this, args);
  } finally {
    this.socket = socket;
  }
};

// A buffer that waits for its turn may shrink: the application transfers it to another thread, or resizes it. The head has
// declared its length already, and the next answer would complete the body. The stream has counted the lengths, too.
function guardLengths(socket) {
  const { _write, _writev } = socket;
  let given; // by the stream, the same each time
  let noting;
  const noted = (callback) => {
    if (callback !== given) {
      given = callback;
      noting = (error) => {
        try {
          callback(error);
        } finally {
          resumeReading(socket);
        }
      };
    }
    return noting;
  };
  socket._write = function writeWhole(data, encoding, callback) {
    if (data.length !== this._writableState.length && this[KEPT] === true) return close(this, SHRANK);
    return _write.call(this, data, encoding, noted(callback));
  };
  if (typeof _writev !== 'function') return;
  socket._writev = function writeAllWhole(parts, callback) {
    let length = 0;
    for (const { chunk } of parts) length += chunk.length;
    if (length !== this._writableState.length && this[KEPT] === true) return close(this, SHRANK);
    return _writev.call(this, parts, noted(callback));
  };
}

// Node's parser reads the connection itself, unless a listener for its data was added. Bytes that come by the stream are the
// application's then. They would be one more request, whose answer the next client gets.
function isForged(socket) {
  return socket[KEPT] === true && Boolean(socket.parser) && socket.parser._consumed === true;
}

function guardInput(socket) {
  const { push, unshift, emit } = socket;
  const guarded = (method) => function putOwnBytes(data, encoding) {
    if (data !== null && this[CLOSING] === true) return false;
    if (data === null || !isForged(this)) return method.call(this, data, encoding);
    close(this, 'put bytes into');
    return false;
  };
  socket.push = guarded(push);
  socket.unshift = guarded(unshift);
  socket.emit = function emitOwnEvent(event, ...args) {
    // Node would fail at the next request after a 'close', and would answer it after an 'error'. It emits both after the end.
    const isEnd = (event === 'close' || event === 'error') && !this.destroyed && this[KEPT] === true;
    // The application emits it: no end has come, and no timeout is set. Node would end the connection.
    const isOwn = (event === 'end' && !this.readableEnded) || (event === 'timeout' && !(this._httpMessage && this.timeout));
    if (isOwn && this[KEPT] === true) return false;
    if (event === 'drain') return apart(emit, this, event, ...args);
    if (!isEnd && (event !== 'data' || !isForged(this))) return emit.call(this, event, ...args);
    close(this, 'emitted an event of');
    return false;
  };
}

// The next answer would wait for the end of a cork, or have its strings encoded as the application likes it.
function guardCork(socket) {
  const { cork, setDefaultEncoding } = socket;
  socket.cork = function corkOfTurn() {
    if (writing.isAnswering || this[KEPT] !== true) return cork.call(this);
    const answer = this._httpMessage;
    if (!answer || answer.finished) return undefined;
    cork.call(this);
    if (writing.ending !== answer) process.nextTick(uncork, this); // `end` uncorks
    return undefined;
  };
  socket.setDefaultEncoding = function setEncodingOfOwn(encoding) {
    return this[KEPT] === true ? this : setDefaultEncoding.call(this, encoding);
  };
}

function uncork(socket) {
  socket.uncork();
}

// Without its listeners a connection would get no further request, and no answer would go on after a full buffer.
function guardListeners(socket) {
  const { removeListener, removeAllListeners } = socket;
  const lasting = new Set();
  for (const event of socket.eventNames()) {
    if (event !== 'timeout') socket.rawListeners(event).forEach((listener) => lasting.add(listener)); // `settle` gives these back
  }
  socket.removeListener = function removeOther(event, listener) {
    // Node removes them for an upgrade.
    const isLasting = LASTING.has(event) && lasting.has(listener) && this[KEPT] === true && OF_NODE.test(listener.name);
    if (isLasting && !(this.parser && this.parser.incoming && this.parser.incoming.upgrade)) return this;
    return removeListener.call(this, event, listener);
  };
  socket.off = socket.removeListener;
  socket.removeAllListeners = function removeOthers(...events) {
    if (this[KEPT] !== true) return removeAllListeners.apply(this, events);
    for (const event of events.length > 0 ? events : this.eventNames()) {
      for (const listener of this.rawListeners(event)) {
        if (!lasting.has(listener)) removeListener.call(this, event, listener);
      }
    }
    return this;
  };
}

// Guards the server of the application from a call that closes idle connections: cabrank may have sent a request to one. The end
// of the server closes them, and cuts no answer that is on its way.
function guardServer(server) {
  const { close: closeServer, closeIdleConnections } = server;
  if (typeof closeIdleConnections !== 'function') return; // before Node 18.2
  let isClosing = false;
  server.close = function closeAndNote(...args) {
    isClosing = true;
    try {
      return closeServer.apply(this, args);
    } finally {
      isClosing = false;
    }
  };
  server.closeIdleConnections = function closeIdleAtEnd() {
    if (this.listening && !isClosing) return;
    const sending = [...kept].filter(({ _httpMessage: answer }) => answer && answer.finished);
    for (const socket of sending) socket._httpMessage.finished = false; // Node takes the others for idle
    closeIdleConnections.call(this);
    for (const socket of sending) {
      socket._httpMessage.finished = true;
      closeSoon(socket);
    }
  };
}

// Guards a connection to the server. Node has prepared the socket for HTTP, and the application may have wrapped its methods.
function guard(socket, before) {
  if (!(socket instanceof net.Socket)) return; // the application has made this connection itself
  socket[KEPT] = true;
  // The application may seal the socket.
  socket[LAST] = socket[ENDING] = socket[CLOSING] = socket[TORN] = socket[HELD_BACK] = false;
  kept.add(socket);
  refusal.watch(socket);
  socket.once('close', () => kept.delete(socket));
  socket[TIMEOUT] = socket.timeout || 0;
  if (socket[TIMEOUT] > 0) socket.setTimeout(0);
  socket[LISTENERS] = socket.rawListeners('timeout');
  const { write, end, pause, setTimeout: setTimeoutOfSocket } = socket;
  socket.write = function writeOfAnswer(data, encoding, callback) {
    if (writing.isAnswering || this[KEPT] !== true) return write.call(this, data, encoding, callback);
    close(this, 'wrote to');
    return false;
  };
  socket.end = function endOfConnection(data, encoding, callback) {
    const hasData = data !== undefined && data !== null && typeof data !== 'function';
    if (writing.isAnswering || this[KEPT] !== true) return end.call(this, data, encoding, callback);
    if (hasData) {
      close(this, 'wrote to');
      return this;
    }
    end.call(this, data, encoding, callback);
    // A connection that is half closed would take another request and could not answer it.
    if (this.writableFinished) this.destroy();
    else this.once('finish', this.destroy);
    return this;
  };
  // Node sets `_paused` before it pauses a socket. The application would stop the next request.
  socket.pause = function pauseOfNode() {
    return this._paused || this[KEPT] !== true ? pause.call(this) : this;
  };
  socket.setTimeout = function setTimeoutOfAnswer(milliseconds, callback) {
    return this[KEPT] === true && !this._httpMessage && milliseconds !== 0 ? this : setTimeoutOfSocket.call(this, milliseconds, callback);
  };
  guardCork(socket);
  guardListeners(socket);
  guardInput(socket);
  guardLengths(socket);
  for (const name of ['on', 'addListener', 'prependListener']) {
    const add = socket[name];
    socket[name] = function addAndNote(event, listener) {
      noteListener(this, event, listener);
      if ((event === 'data' || event === 'readable') && this[KEPT] === true) endWithAnswer(this);
      return add.call(this, event, listener);
    };
  }
  note(socket, before);
  guardParser(socket);
  if (socket.parser && socket.parser._consumed !== true) socket[ENDING] = true; // a listener of 'connection' reads it: see `isForged`
}

// Lets nothing that an earlier request has left reach the code that runs for the next one.
function guardParser(socket) {
  const { parser } = socket;
  if (!parser || typeof parser.onIncoming !== 'function') return;
  const { onIncoming } = parser;
  parser.onIncoming = function beginRequest(...args) {
    if (socket[KEPT] === true && (isStuck(socket) || !begins(socket) || !refusal.mayBegin(socket))) {
      refusal.refuse(socket, true);
      socket.destroy();
      return 0;
    }
    takeOrigin(args[0]);
    noteLatest(socket, args[0]); // listeners of diagnostics see the request before its event
    return onIncoming.apply(this, args);
  };
}

// Returns whether a connection can carry no further request. The server sends none before an answer ends, and Node then takes the answer
// from its socket. An exception may have kept Node from that, or the application, which can replace `detachSocket` and remove Node's
// listener for the end of the answer. Node would keep the next answer for ever.
function isStuck(socket) {
  try {
    return socket[CLOSING] || socket[TORN] || socket.writableEnded || Boolean(socket._httpMessage);
  } catch { // an accessor of the application
    return true;
  }
}

// Begins a request, whose socket an earlier one may have kept.
function begin(request, response) {
  const { socket } = request;
  if (socket[KEPT] === true && response instanceof ServerResponse && response[REQUEST] === undefined) {
    response[REQUEST] = request; // the application can change `req`
    response[IS_HEAD] = request.method === 'HEAD'; // and this
  }
  if (socket[KEPT] === true) began(socket, response);
  if (socket[KEPT] === true && socket._httpMessage === response) settle(socket, socket[TIMEOUT]);
}

// Returns whether Node has emitted this event. An application may emit it, too, for a request that was answered long ago.
function isGenuine(event, subject, socket) {
  if (event !== 'clientError') return subject.upgrade === true && !socket.parser;
  return !socket.listeners('error').some((listener) => listener.name === 'socketOnError'); // Node removes it first
}

// Gives a socket to the application, because of this event and its subject, a request or an error.
function release(event, subject, socket) {
  if (OWN.has(event) && socket && socket[KEPT] === true && !socket.destroyed && isGenuine(event, subject, socket)) {
    socket[KEPT] = false;
    refusal.release(socket);
    if (socket[TIMEOUT] > 0) socket.setTimeout(socket[TIMEOUT]); // as Node leaves it
    if (event === 'clientError') endAfterWrite(socket);
  }
}

// Node's parser stays in its error state after a 'clientError', and would refuse the next client's request. If the answer does not say
// that its connection ends, the server may have sent that request.
function endAfterWrite(socket) {
  const { write, end } = socket;
  const answers = (data) => {
    if (KEEPS.test(data) && !CLOSES.test(data)) refusal.watchAgain(socket);
  };
  socket.write = function writeLast(data, ...rest) {
    setImmediate(() => this.destroySoon());
    answers(data);
    return write.call(this, data, ...rest);
  };
  socket.end = function endLast(data, ...rest) {
    answers(data);
    return end.call(this, data, ...rest);
  };
}

watchExceptions(kept);
process.on('exit', () => kept.forEach((socket) => refusal.refuse(socket)));

module.exports = { begin, guard, guardServer, release };
