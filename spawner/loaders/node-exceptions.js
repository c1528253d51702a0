'use strict';

// The connections in which an exception that the application survives may have interrupted Node.
//
// Node's parser takes an exception of the code that it calls for its own, and stays in its error state. Elsewhere an exception may have
// kept Node from ending an answer. Such connections end, as soon as the server can learn of it in time.

const { executionAsyncResource } = require('async_hooks');
const { KEPT, LAST, ENDING, CLOSING, close, closeSoon } = require('./node-answer.js');
const refusal = require('./node-refusal.js');

const NOTHING = Buffer.from([0]).subarray(1); // with an address: without one it would be the end of the input

// Ends a connection with its present answer.
function endWithAnswer(socket) {
  const answer = socket._httpMessage;
  if (!answer) return close(socket, 'reads');
  if (answer.finished) return closeSoon(socket); // `_finish` has run
  socket[LAST] = true;
  if (!answer.headersSent) answer.shouldKeepAlive = false;
  return undefined;
}

// Returns the socket whose parser has called the code that has thrown, if there is one.
function socketOfParser() {
  try {
    return executionAsyncResource().socket;
  } catch { // an accessor of the application
    return undefined;
  }
}

// Returns whether an exception may have left Node's parser in its error state. The parser calls the listeners of a request. With each
// part of a body it also runs the callbacks of `process.nextTick` and of promises, and takes their exceptions for its own.
function mayHaveFailed(socket, failed) {
  const incoming = socket.parser && socket.parser.incoming;
  return socket === failed || Boolean(incoming && !incoming.complete);
}

// Ends a connection with the first answer whose head can say so. Until then the server may send a request, or has sent one.
function endAnnounced(socket) {
  const answer = socket._httpMessage;
  if (answer && !answer._headerSent) {
    endWithAnswer(socket);
    return;
  }
  socket[ENDING] = true;
}

// Watches the exceptions that end the process unless the application survives them.
function watchExceptions(kept) {
  process.on('uncaughtExceptionMonitor', () => endInDoubt(kept));
}

// The application may survive this exception. One that Node's parser has met ends the connection. Elsewhere it may have interrupted
// Node, too: such a connection ends with its next answer.
function endInDoubt(kept) {
  const failed = socketOfParser();
  for (const socket of kept) {
    if (socket[KEPT] !== true || socket[CLOSING] === true) continue; // an end that has failed would fail again, without end
    try {
      if (!mayHaveFailed(socket, failed)) endAnnounced(socket);
      else if (socket._httpMessage) endWithAnswer(socket);
      else closeSoon(socket);
      if (socket !== failed) setImmediate(endIfFailed, socket);
    } catch { // the application has frozen the socket, which cannot note its end either
      refusal.refuse(socket);
      kept.delete(socket);
      if (socket._handle) socket._handle.close();
    }
  }
  if (process.hasUncaughtExceptionCaptureCallback()) runTicks(); // no event follows
  else if (process.listenerCount('uncaughtException') > 0) process.once('uncaughtException', runTicks); // behind those of the application
}

// Ends a connection whose parser is in its error state: the rest of its request would never come. A request whose own listener has
// thrown in the parser may still be answered.
function endIfFailed(socket) {
  const { parser } = socket;
  if (socket.destroyed || !parser || !parser.incoming || parser.incoming.complete) return;
  if (parser.execute(NOTHING) instanceof Error) socket.destroySoon();
}

// Runs the callbacks of `process.nextTick` that an exception has left behind. Otherwise they would run within the next callback of
// Node, which may be that of another client's parser. It would take an exception of theirs for its own, and answer 400.
function runTicks() {
  if (typeof process._tickCallback !== 'function') return; // it is not documented, and another version may not have it
  for (;;) {
    try {
      process._tickCallback();
      return;
    } catch (error) {
      setImmediate(() => { throw error; });
    }
  }
}

module.exports = { endWithAnswer, watchExceptions };
