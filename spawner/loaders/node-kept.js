'use strict';

// Guards of the connections to the server: nothing of a request outlives its answer.
//
// A connection carries the requests of one client after another, and the application can keep hold of each object of a
// request. Node itself stops a response after its end, and a request gets no byte of the next one. These rules are added:
//
//   - A body never has more bytes than its Content-Length: the rest would begin the next client's answer. A body with fewer
//     bytes ends the connection, for the next answer would complete it.
//   - An answer that is complete has been ended, so that the next client does not wait for `end()`. Until then the last byte
//     of a declared length is held back. A head without a body that leaves before `end()` says `Connection: close`.
//   - A buffer that shrinks before its bytes have left ends the connection, and so does an exception within a write.
//   - The application cannot write to the socket, which carries the answers of all clients. A write ends the connection.
//   - After the end of an answer the response writes nothing, and after its head it sends no interim answer. An answer that
//     the application makes itself, or a request that it sends over the socket, ends the connection.
//   - Bytes that the application puts into the socket would be a request. They end the connection.
//   - An application that reads the socket would read the next client's request. The connection ends with the present answer.
//   - The application cannot pause the socket: `request.pause()` pauses its own request. When it ends the socket, the
//     connection is closed at once, before another request comes.
//   - Timeouts of a request end with its answer: the socket has again the timeout that it had as a new connection.
//   - A cork that the application puts on the socket ends with the turn of the event loop, and the listeners of Node stay.
//
// A socket that the application gets by 'upgrade', 'connect' or 'clientError' is its own: the server sends no request there.

const net = require('net');
const { IncomingMessage, OutgoingMessage, ServerResponse } = require('http');
const { began, begins, ended, note, noteListener } = require('./node-traces.js');

const KEPT = Symbol('carries one request after another');
const LAST = Symbol('ends with the present answer');
const CLOSING = Symbol('reads no further request');
const SENT = Symbol('bytes of the body');
const HELD = Symbol('the last byte of the body, before the end');
const ANSWERED = Symbol('has its response');
const TORN = Symbol('a call that writes to it has begun, and has not returned');
const TIMEOUT = Symbol('the timeout of the connection');
const LISTENERS = Symbol('the listeners of that timeout');
const OWN = new Set(['upgrade', 'connect', 'clientError']);
const LASTING = new Set(['data', 'end', 'close', 'drain']);
const OF_NODE = /^(bound )?(socketOn|onReadableStreamEnd$)/; // names of listeners
const SHRANK = 'shrank a buffer that is on its way to';
const INTERIM = ['writeContinue', 'writeProcessing', 'writeEarlyHints', 'writeInformation'];
const PERSISTENCE = /\r\n(?:Connection: (?:keep-alive|close)|Keep-Alive: [^\r]*)(?=\r\n)/gi;

// Since version 22 a corked response keeps its chunks itself, and its `end` sends them behind the end of the body.
const HAS_CHUNKS = Object.getOwnPropertySymbols(new OutgoingMessage()).some(({ description }) => description === 'kChunkedBuffer');

const kept = new Set(); // the open connections
let isAnswering = false; // a response writes to its socket
let ending = null; // the response whose `end` is in progress

// A client request has these methods, too. Only those of a response may write to a socket that is kept.
const { _writeRaw, _flushOutput, _send } = OutgoingMessage.prototype;
const { _finish, assignSocket, detachSocket } = ServerResponse.prototype;

function isKept(message) {
  // An answer that waits for the one before has no socket yet.
  const socket = message.socket || (message.req && message.req.socket);
  return Boolean(socket) && socket[KEPT] === true;
}

// Calls a method that writes to the socket of a response. An exception may stop Node halfway, and the next answer would wait for
// ever: a stack that overflows can leave the stream corked, or waiting for a callback. The mark is set first, because each call
// behind the exception may overflow, too.
function whole(method, message, ...args) {
  const { socket } = message;
  if (!socket || socket[KEPT] !== true) return method.apply(message, args);
  const before = socket[TORN];
  socket[TORN] = true;
  try {
    const result = method.apply(message, args);
    socket[TORN] = before;
    return result;
  } catch (error) {
    if (isRefusal(error)) socket[TORN] = before;
    else closeSoon(socket);
    throw error;
  }
}

// Returns whether Node has refused an argument. It does so before it writes.
function isRefusal(error) {
  return error instanceof Error && typeof error.code === 'string' && error.code.startsWith('ERR_');
}

ServerResponse.prototype._writeRaw = function writeRaw(data, encoding, callback, size) {
  if (this.finished && isKept(this)) { // the socket may carry the next answer
    if (typeof callback === 'function') process.nextTick(callback);
    return false;
  }
  const before = isAnswering;
  isAnswering = true;
  try {
    return whole(_writeRaw, this, data, encoding, callback, size);
  } finally {
    isAnswering = before;
  }
};

ServerResponse.prototype._flushOutput = function flushOutput(socket) {
  const before = isAnswering;
  isAnswering = true;
  try {
    return whole(_flushOutput, this, socket);
  } finally {
    isAnswering = before;
  }
};

// Behind the head an interim answer would be a part of the body, which the declared length does not count.
for (const name of INTERIM) {
  const interim = ServerResponse.prototype[name];
  if (typeof interim !== 'function') continue;
  ServerResponse.prototype[name] = function interimBeforeHead(...args) {
    if (!this._headerSent || !isKept(this)) return interim.apply(this, args);
    const callback = args[args.length - 1];
    if (typeof callback === 'function') process.nextTick(callback);
    return undefined;
  };
}

// The server gives each request one response. Another one for it would answer the next request.
ServerResponse.prototype.assignSocket = function assignOnce(socket) {
  if (socket[KEPT] === true) {
    const { req } = this; // old versions have none
    if (req && (req.socket !== socket || req[ANSWERED] === true)) close(socket, 'assigned another response to');
    else if (req) req[ANSWERED] = true;
  }
  return assignSocket.call(this, socket);
};

ServerResponse.prototype.detachSocket = function detachAndSettle(socket) {
  if (socket[TORN] && socket._httpMessage !== this) return; // its callback has run before
  detachSocket.call(this, socket);
  if (socket[KEPT] !== true) return;
  settle(socket);
  ended(socket, this);
};

// Takes back the timeouts that a request has set, and gives back the listeners that it has removed.
function settle(socket) {
  if ((socket.timeout || 0) !== socket[TIMEOUT]) socket.setTimeout(socket[TIMEOUT]);
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
    if (!answer || answer.finished || (answer.req && answer.req !== this)) return this; // it is answered
  }
  return setTimeoutOfRequest.call(this, milliseconds, callback);
};

// Returns the declared length of the body of an answer to the server, or undefined.
function declaredOf(message) {
  if (!isKept(message)) return undefined;
  if (!message._hasBody || message.chunkedEncoding || typeof message._contentLength !== 'number') return undefined;
  return message._contentLength;
}

// Returns the bytes of a text, unless Node counts them exactly. It only estimates them for base64 and hex: a length of 0 would end a
// chunked body, and too high a length would take its end from the next answer. An unknown encoding is refused here, before Node has
// written the length of a chunk.
function bytesOf(chunk, encoding) {
  const isExact = typeof chunk !== 'string' || typeof encoding !== 'string' || /^(utf-?8|latin1|buffer)?$/i.test(encoding);
  return isExact ? chunk : Buffer.from(chunk, encoding);
}

// The next client would wait for the end of an answer that is complete with its head.
function sayLast(message) {
  message._last = true;
  message._header = message._header.replace(PERSISTENCE, '').slice(0, -2) + 'Connection: close\r\n\r\n';
}

ServerResponse.prototype._send = function send(data, encoding, callback, size) {
  const isEnding = ending === this;
  if (!isEnding && !this._headerSent && this._header && isKept(this) && (!this._hasBody || declaredOf(this) === 0)) sayLast(this);
  const declared = data.length > 0 ? declaredOf(this) : undefined;
  if (declared === undefined) return _send.call(this, data, encoding, callback, size);
  const bytes = typeof data === 'string' ? Buffer.byteLength(data, encoding) : data.byteLength;
  const sent = this[SENT] || 0;
  const room = Math.max(0, declared - sent);
  const isHeld = !isEnding && room > 0 && bytes >= room;
  if (bytes > room || isHeld) {
    data = (typeof data === 'string' ? Buffer.from(data, encoding) : data).subarray(0, room);
    if (isHeld) {
      this[HELD] = Buffer.from(data.subarray(room - 1));
      data = data.subarray(0, room - 1);
    }
    this[SENT] = declared;
    return _send.call(this, data, encoding, callback, data.length);
  }
  this[SENT] = sent + bytes;
  return _send.call(this, data, encoding, callback, size);
};

const { write, writeHead } = ServerResponse.prototype;

// A head that Node refuses leaves what it said of the body and the connection behind, and the head that the application writes instead
// would contradict it: a chunked body with a length, or a connection that ends although the head keeps it.
ServerResponse.prototype.writeHead = function writeHeadOrNothing(...args) {
  const { chunkedEncoding, shouldKeepAlive, _hasBody, _last, _contentLength } = this;
  try {
    return writeHead.apply(this, args);
  } catch (error) {
    if (!this._header) Object.assign(this, { chunkedEncoding, shouldKeepAlive, _hasBody, _last, _contentLength });
    throw error;
  }
};

ServerResponse.prototype.write = function writeBytes(chunk, encoding, callback) {
  return write.call(this, bytesOf(chunk, encoding), encoding, callback);
};

ServerResponse.prototype.end = function end(chunk, ...rest) {
  const args = [bytesOf(chunk, rest[0]), ...rest];
  return whole(endOnce, this, args);
};

function endOnce(args) {
  const before = ending;
  const held = this[HELD];
  ending = this;
  try {
    if (HAS_CHUNKS && !this.finished && isKept(this)) {
      for (let corks = this.writableCorked; corks > 0; corks--) OutgoingMessage.prototype.uncork.call(this);
    }
    if (held && !this.finished) {
      if (this.socket) this.socket.cork(); // `end` uncorks it
      this[HELD] = undefined;
      _send.call(this, held);
    }
    return OutgoingMessage.prototype.end.apply(this, args);
  } finally {
    ending = before;
    if (held && !this.finished) this.destroy(); // `end` has thrown, and the answer is complete
  }
}

// Returns whether the head of an answer promises a body that Node does not send, such as one with status 150. It would be an interim
// answer, and its client would wait.
function lacksBody(message) {
  if (message._hasBody || !message._header || !message.req || message.req.method === 'HEAD') return false;
  const status = message._header.slice(9, 12);
  return status !== '204' && status !== '304';
}

ServerResponse.prototype._finish = function finish() {
  const { socket } = this;
  const declared = declaredOf(this);
  try {
    _finish.call(this);
  } finally { // a listener of 'prefinish' may throw
    if (socket && socket[KEPT] === true) {
      const isShort = declared !== undefined && (this[HELD] || (this[SENT] || 0) < declared);
      if (socket[LAST] || isShort || lacksBody(this)) closeSoon(socket);
    }
  }
};

function close(socket, what) {
  if (socket.destroyed) return;
  console.error(`node-loader: the application ${what} the socket of a request. It carries the requests of other clients, too, so ` +
    'that the loader has closed it. Use the request and the response, or an upgrade.');
  socket.destroy();
}

// Closes a socket as soon as the bytes of its answer have left. The next request can come a moment before that.
function closeSoon(socket) {
  socket[CLOSING] = true;
  socket.destroySoon();
}

function endWithAnswer(socket) {
  const answer = socket._httpMessage;
  if (!answer) return close(socket, 'reads');
  if (answer.finished) return closeSoon(socket); // `_finish` has run
  socket[LAST] = true;
  if (!answer.headersSent) answer.shouldKeepAlive = false;
  return undefined;
}

// A buffer that waits for its turn may shrink: the application transfers it to another thread, or resizes it. The head has
// declared its length already, and the next answer would complete the body. The stream has counted the lengths, too.
function guardLengths(socket) {
  const { _write, _writev } = socket;
  socket._write = function writeWhole(data, encoding, callback) {
    if (data.length !== this._writableState.length && this[KEPT] === true) return close(this, SHRANK);
    return _write.call(this, data, encoding, callback);
  };
  if (typeof _writev !== 'function') return;
  socket._writev = function writeAllWhole(parts, callback) {
    let length = 0;
    for (const { chunk } of parts) length += chunk.length;
    if (length !== this._writableState.length && this[KEPT] === true) return close(this, SHRANK);
    return _writev.call(this, parts, callback);
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
    if (!isEnd && (event !== 'data' || !isForged(this))) return emit.call(this, event, ...args);
    close(this, 'emitted an event of');
    return false;
  };
}

// The next answer would wait for the end of a cork, or have its strings encoded as the application likes it.
function guardCork(socket) {
  const { cork, setDefaultEncoding } = socket;
  socket.cork = function corkOfTurn() {
    if (isAnswering || this[KEPT] !== true) return cork.call(this);
    const answer = this._httpMessage;
    if (!answer || answer.finished) return undefined;
    cork.call(this);
    if (ending !== answer) process.nextTick(uncork, this); // `end` uncorks
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

// Guards a connection to the server. Node has prepared the socket for HTTP, and the application may have wrapped its methods.
function guard(socket, before) {
  if (!(socket instanceof net.Socket)) return; // the application has made this connection itself
  socket[KEPT] = true;
  kept.add(socket);
  socket.once('close', () => kept.delete(socket));
  socket[TIMEOUT] = socket.timeout || 0;
  socket[LISTENERS] = socket.rawListeners('timeout');
  const { write, end, pause } = socket;
  socket.write = function writeOfAnswer(data, encoding, callback) {
    if (isAnswering || this[KEPT] !== true) return write.call(this, data, encoding, callback);
    close(this, 'wrote to');
    return false;
  };
  socket.end = function endOfConnection(data, encoding, callback) {
    const hasData = data !== undefined && data !== null && typeof data !== 'function';
    if (isAnswering || this[KEPT] !== true) return end.call(this, data, encoding, callback);
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
}

// Lets nothing that an earlier request has left reach the code that runs for the next one.
function guardParser(socket) {
  const { parser } = socket;
  if (!parser || typeof parser.onIncoming !== 'function') return;
  const { onIncoming } = parser;
  parser.onIncoming = function beginRequest(...args) {
    if (socket[KEPT] === true && (socket[TORN] || !begins(socket))) {
      socket.destroy();
      return 0;
    }
    return onIncoming.apply(this, args);
  };
}

// Begins a request, whose socket an earlier one may have kept.
function begin({ socket }, response) {
  if (socket[KEPT] === true) began(socket, response);
  if (socket[KEPT] === true && socket._httpMessage === response) settle(socket);
}

// Returns whether Node has emitted this event. An application may emit it, too, for a request that was answered long ago.
function isGenuine(event, subject, socket) {
  if (event !== 'clientError') return subject.upgrade === true && !socket.parser;
  return !socket.listeners('error').some((listener) => listener.name === 'socketOnError'); // Node removes it first
}

// Gives a socket to the application, because of this event and its subject, a request or an error.
function release(event, subject, socket) {
  if (OWN.has(event) && socket && socket[KEPT] === true && isGenuine(event, subject, socket)) {
    socket[KEPT] = false;
    if (event === 'clientError') endAfterWrite(socket);
  }
}

// Node's parser stays in its error state after a 'clientError', and would refuse the next client's request.
function endAfterWrite(socket) {
  const { write } = socket;
  socket.write = function writeLast(...args) {
    setImmediate(() => this.destroySoon());
    return write.apply(this, args);
  };
}

// An exception that the application survives may have left Node's parser in its error state. It names no connection.
process.on('uncaughtExceptionMonitor', () => {
  for (const socket of kept) {
    if (socket[KEPT] !== true) continue;
    if (socket._httpMessage) endWithAnswer(socket);
    else closeSoon(socket);
  }
});

module.exports = { begin, guard, release };
