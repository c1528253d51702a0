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

const LATEST = Symbol('latest request');
const DONE = Symbol('the request that was answered last, unless another has begun since');

function clientOf(request) {
  const addresses = request && request.headers['x-forwarded-for'];
  return addresses === undefined ? undefined : addresses.slice(addresses.lastIndexOf(',') + 1).trim();
}

// The properties of a socket to the server. A request that does not read them pays nothing.
const CLIENT = {
  remoteAddress: { get() { return clientOf(this[LATEST]); } },
  remoteFamily: { get() { return ({ 4: 'IPv4', 6: 'IPv6' })[net.isIP(clientOf(this[LATEST]) || '')]; } },
  remotePort: { value: 0 },
};

// Few requests are asked for their socket so late, and a socket takes 1,000 ns to make: a `Proxy`, which takes 30 ns, makes it when it
// is first used.
class Late {
  constructor(request) {
    this.request = request;
    this.closed = undefined;
  }

  socket() {
    if (this.closed === undefined) {
      this.closed = new net.Socket();
      for (const [name, property] of Object.entries(CLIENT)) Object.defineProperty(this.closed, name, { ...property, configurable: true });
      this.closed[LATEST] = this.request;
      this.closed.destroy();
    }
    return this.closed;
  }
}

const forwarding = {};
for (const trap of Object.getOwnPropertyNames(Reflect)) {
  forwarding[trap] = (late, ...args) => Reflect[trap](late.socket(), ...args);
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

// Gives an earlier request a closed socket.
function closeFor(earlier, socket) {
  if (earlier !== undefined && earlier.socket === socket) earlier.socket = earlier.client = new Proxy(new Late(earlier), forwarding);
}

module.exports = { CLIENT, LATEST, noteAnswered, noteLatest };
