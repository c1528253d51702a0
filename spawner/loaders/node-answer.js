'use strict';

// Guards of the answers to the server: an answer has the bytes that its head declares, and ends once.
//
// The next answer on its connection goes to another client. Node itself stops a response after its end. These rules are added:
//
//   - A body never has more bytes than its Content-Length: the rest would begin the next client's answer. A body with fewer
//     bytes ends the connection, for the next answer would complete it.
//   - An answer that is complete has been ended, so that the next client does not wait for `end()`. Until then the last byte
//     of a declared length is held back. A head without a body that leaves before `end()` says `Connection: close`.
//   - An exception within a write ends the connection. One of a callback of a write does not interrupt Node.
//   - After the end of an answer the response writes nothing, and after its head it sends no interim answer. No field of an interim
//     answer has a line break.
//   - An answer that the application makes itself, or a request that it sends over the socket, ends the connection.

const { OutgoingMessage, ServerResponse, validateHeaderName, validateHeaderValue } = require('http');
const { noteWhole } = require('./node-refusal.js');

const KEPT = Symbol('carries one request after another');
const LAST = Symbol('ends with the present answer');
const ENDING = Symbol('ends with the next answer');
const CLOSING = Symbol('reads no further request');
const REQUEST = Symbol('the request of a response'); // the application can change `req`
const IS_HEAD = Symbol('whether the answer is one to HEAD');
const HELD_BACK = Symbol('reads nothing until the bytes of an answer have left');
const TORN = Symbol('a call that writes to it has begun, and has not returned');
const SENT = Symbol('bytes of the body');
const HELD = Symbol('the last byte of the body, before the end');
const NOTED = Symbol('counts as whole');
const ANSWERED = Symbol('has its response');
const INTERIM = ['writeContinue', 'writeProcessing', 'writeEarlyHints', 'writeInformation'];
const PERSISTENCE = /\r\n(?:Connection: (?:keep-alive|close)|Keep-Alive: [^\r]*)(?=\r\n)/gi;

// Since version 22 a corked response keeps its chunks itself, and its `end` sends them behind the end of the body.
const HAS_CHUNKS = Object.getOwnPropertySymbols(new OutgoingMessage()).some(({ description }) => description === 'kChunkedBuffer');

const writing = {
  isAnswering: false, // a response writes to its socket
  ending: null, // the response whose `end` is in progress
};

// A client request has these methods, too. Only those of a response may write to a socket that is kept.
const { _writeRaw, _flushOutput, _send } = OutgoingMessage.prototype;
const { _finish, assignSocket } = ServerResponse.prototype;

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

// Stops reading until the bytes of an answer have left, and Node has learned of that. The server may have them all, and send the next
// request, a moment before. It would begin while the socket is still the answer's.
function holdReading(socket) {
  const handle = socket._handle;
  if (socket.writableLength === 0 || !handle || !handle.reading) return;
  socket[HELD_BACK] = true;
  handle.reading = false;
  handle.readStop();
}

function resumeReading(socket) {
  if (socket[HELD_BACK] !== true || socket.writableLength > 0) return;
  socket[HELD_BACK] = false;
  const handle = socket._handle;
  if (!handle || handle.reading) return;
  handle.reading = true;
  handle.readStart();
}

function isKept(message) {
  // An answer that waits for the one before has no socket yet.
  const socket = message.socket || (message[REQUEST] && socketOf(message[REQUEST]));
  return Boolean(socket) && socket[KEPT] === true;
}

// Returns the socket of a request, for which the application may have an accessor of its own.
function socketOf(request) {
  try {
    return request.socket;
  } catch {
    return undefined;
  }
}

// Calls a method that writes to the socket of a response. An exception may stop Node halfway, and the next answer would wait for
// ever: a stack that overflows can leave the stream corked, or waiting for a callback. The mark is set first, because each call
// behind the exception may overflow, too.
function whole(method, message, ...args) {
  const { socket } = message;
  if (!socket || socket[KEPT] !== true) return method.apply(message, args);
  const before = socket[TORN];
  const { _headerSent: hadHead, [SENT]: sent } = message;
  socket[TORN] = true;
  try {
    const result = method.apply(message, args);
    socket[TORN] = before;
    return result;
  } catch (error) {
    if (isRefusal(error) && message._headerSent === hadHead && message[SENT] === sent) {
      socket[TORN] = before;
    } else {
      if (hasLeft(message)) noteOnce(message, socket);
      closeSoon(socket);
    }
    throw error;
  }
}

// Returns whether Node has refused an argument, or a length: with `strictContentLength` only after it has written the body.
function isRefusal(error) {
  return error instanceof Error && typeof error.code === 'string' && error.code.startsWith('ERR_');
}

// Returns whether the client has all bytes of an answer that has not been ended.
function hasLeft(message) {
  const declared = declaredOf(message);
  return declared !== undefined && message._headerSent && !message[HELD] && message[SENT] === declared && !message._last;
}

function noteOnce(message, socket) {
  if (message[NOTED] !== true) noteWhole(socket);
  message[NOTED] = true;
}

// Calls code of the application that runs within a loop of Node's stream. An exception there would keep the stream from its other
// callbacks: the answer would never end for Node, while its client has it and the server sends the next request. So the exception
// is thrown behind the loop, where Node's parser does not run either.
function apart(called, receiver, ...args) {
  try {
    return called.apply(receiver, args);
  } catch (error) {
    setImmediate(() => { throw error; });
    return undefined;
  }
}

ServerResponse.prototype._writeRaw = function writeRaw(data, encoding, callback, size) {
  if (typeof callback === 'function' && isKept(this)) callback = apart.bind(undefined, callback, undefined);
  if (this.finished && isKept(this)) { // the socket may carry the next answer
    if (typeof callback === 'function') process.nextTick(callback);
    return false;
  }
  const before = writing.isAnswering;
  writing.isAnswering = true;
  try {
    return whole(_writeRaw, this, data, encoding, callback, size);
  } finally {
    writing.isAnswering = before;
  }
};

ServerResponse.prototype._flushOutput = function flushOutput(socket) {
  const before = writing.isAnswering;
  writing.isAnswering = true;
  try {
    return whole(_flushOutput, this, socket);
  } finally {
    writing.isAnswering = before;
  }
};

// Returns the fields of an interim answer as texts, or throws. Node checks them less than those of a head: a line break within one would
// end the interim answer, and the rest would be an answer of its own, which the next client gets.
function checkedFields(fields) {
  if (fields === null || typeof fields !== 'object') return fields;
  const checked = {};
  for (const [name, value] of Object.entries(fields)) {
    validateHeaderName(name);
    if (value === null || value === undefined) continue;
    const texts = [value].flat(Infinity).map(String);
    texts.forEach((text) => validateHeaderValue(name, text));
    checked[name] = Array.isArray(value) ? texts : texts[0];
  }
  return checked;
}

let complained = false;

// Returns the arguments of an interim answer, or undefined if it cannot be sent: the answer itself needs it not, and a client may have
// chosen its text.
function checkedArguments(args) {
  try {
    return args.map(checkedFields);
  } catch (error) {
    if (!complained) console.error(`node-loader: an interim answer is not sent: ${error.message} Later ones are dropped silently.`);
    complained = true;
    return undefined;
  }
}

// Behind the head an interim answer would be a part of the body, which the declared length does not count.
for (const name of INTERIM) {
  const interim = ServerResponse.prototype[name];
  if (typeof interim !== 'function') continue;
  ServerResponse.prototype[name] = function interimBeforeHead(...args) {
    if (!isKept(this)) return interim.apply(this, args);
    const checked = this._headerSent ? undefined : checkedArguments(args);
    if (checked !== undefined) return interim.apply(this, checked);
    const callback = args[args.length - 1];
    if (typeof callback === 'function') process.nextTick(callback);
    return undefined;
  };
}

// The server gives each request one response. Another one for it would answer the next request.
ServerResponse.prototype.assignSocket = function assignOnce(socket) {
  if (socket[KEPT] === true) {
    if (socket[ENDING] === true && !this._header) {
      socket[LAST] = true;
      this.shouldKeepAlive = false;
    }
    const { req } = this; // old versions have none
    if (req && (req.socket !== socket || req[ANSWERED] === true)) close(socket, 'assigned another response to');
    else if (req) req[ANSWERED] = true;
  }
  return assignSocket.call(this, socket);
};

// Returns the declared length of the body of an answer to the server, or undefined.
function declaredOf(message) {
  if (!isKept(message)) return undefined;
  if (!message._hasBody || message.chunkedEncoding) return undefined;
  const length = message._contentLength; // before version 20 as the application has written it
  return typeof length === 'number' || /^\d+$/.test(length) ? Number(length) : undefined;
}

// Returns the bytes of a text, unless Node counts them exactly. It only estimates them for base64 and hex: a length of 0 would end a
// chunked body, and too high a length would take its end from the next answer. An unknown encoding is refused here, before Node has
// written the length of a chunk.
function bytesOf(chunk, encoding) {
  const isExact = typeof chunk !== 'string' || typeof encoding !== 'string' || /^(utf-?8|latin1|buffer)?$/i.test(encoding);
  return isExact ? chunk : Buffer.from(chunk, encoding);
}

// Returns whether the head of an answer has to say that the connection ends. The next client would wait for the end of an answer that is
// complete with its head. The server would send a request to a connection that ends without a word.
function isLast(message) {
  if (!isKept(message)) return false;
  if (message._last || (message.socket && message.socket[LAST] === true)) return true; // Node reads `close` in more than the server
  return writing.ending !== message && (!message._hasBody || declaredOf(message) === 0);
}

function sayLast(message) {
  message._last = true;
  message._header = message._header.replace(PERSISTENCE, '').slice(0, -2) + 'Connection: close\r\n\r\n';
}

ServerResponse.prototype._send = function send(data, encoding, callback, size) {
  const isEnding = writing.ending === this;
  if (!this._headerSent && this._header && isLast(this)) sayLast(this);
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
  const before = writing.ending;
  const held = this[HELD];
  writing.ending = this;
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
    writing.ending = before;
    if (held && !this.finished) this.destroy(); // `end` has thrown, and the answer is complete
  }
}

// Returns whether the head of an answer promises a body that Node does not send, such as one with status 150. It would be an interim
// answer, and its client would wait.
function lacksBody(message) {
  if (message._hasBody || !message._header || !message[REQUEST] || message[IS_HEAD]) return false;
  const status = message._header.slice(9, 12);
  return status !== '204' && status !== '304';
}

ServerResponse.prototype._finish = function finish() {
  const { socket } = this;
  const declared = declaredOf(this);
  const isShort = declared !== undefined && (this[HELD] || (this[SENT] || 0) < declared);
  const isWhole = !isShort && !lacksBody(this);
  // First: a listener of 'prefinish' may destroy the socket, or throw.
  if (socket && socket[KEPT] === true && isWhole && !this._last) noteOnce(this, socket);
  try {
    _finish.call(this);
  } finally {
    if (socket && socket[KEPT] === true) {
      if (socket[LAST] || !isWhole) closeSoon(socket);
      else holdReading(socket);
    }
  }
};

module.exports = {
  KEPT, LAST, ENDING, CLOSING, REQUEST, IS_HEAD, TORN, HELD_BACK, writing, apart, close, closeSoon, resumeReading, socketOf,
};
