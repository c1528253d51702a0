'use strict';

// The socket of a request whose connection carries a later one.
//
// The application may keep the request, and end its socket when the next client's request is on that connection. Express does so for an
// error that comes after the answer. So the earlier request gets another socket: a closed one, as if its client had left. Its
// methods do nothing, what the application puts on it stays on it, and it keeps the address of the request's own client.
//
// Until the next request begins, the earlier one has the socket of its connection, so that a listener of 'finish' finds what the
// application keeps by that socket. A socket that the application has taken from the request stays the connection's.

const net = require('net');
const { KEPT } = require('./node-answer.js');
const { CLIENT, LATEST } = require('./node-client.js');

const DONE = Symbol('the request that was answered last, unless another has begun since');

// Few requests are asked for their socket so late, and a socket takes 1,000 ns to make: a `Proxy` takes 30 ns, and makes its target
// a closed socket when it is first used.
const handler = {};
for (const trap of Object.getOwnPropertyNames(Reflect)) {
  handler[trap] = (target, ...args) => {
    if (!made.has(target)) make(target);
    return Reflect[trap](target, ...args);
  };
}

const made = new WeakSet();

function make(target) {
  const request = target[LATEST];
  made.add(target);
  net.Socket.call(target);
  for (const [name, property] of Object.entries(CLIENT)) Object.defineProperty(target, name, { ...property, configurable: true });
  target[LATEST] = request;
  target[KEPT] = true; // for the guards of a response it is a socket of the server
  target.on('error', () => {});
  target.destroy();
}

// Notes that the answer to a request has ended. One that was answered before on this connection is an earlier one.
function noteAnswered(socket, request) {
  closeFor(socket[DONE], socket);
  socket[DONE] = request;
}

// Notes that a request is the latest of its socket.
function noteLatest(socket, request) {
  socket[LATEST] = request;
  closeFor(socket[DONE], socket);
  socket[DONE] = undefined;
}

// Gives an earlier request a closed socket, where the application has not put something else.
function closeFor(earlier, socket) {
  if (earlier === undefined) return;
  const target = Object.create(net.Socket.prototype);
  target[LATEST] = earlier;
  const late = new Proxy(target, handler);
  try {
    if (earlier.socket === socket) Reflect.set(earlier, 'socket', late);
    if (earlier.client === socket) Reflect.set(earlier, 'client', late);
  } catch {
    // an accessor of the application
  }
}

module.exports = { noteAnswered, noteLatest };
