'use strict';

// The address that an application's server says it has.
//
// The server listens on a Unix socket, whose `address()` is a text. Applications print `server.address().port`, so the answer is that of the
// TCP server for which the application asked. A server that asked for a path, or for `passenger`, shows the path of the socket.

const http = require('http');
const net = require('net');

const asked = new WeakMap(); // server → the address for which it asked
const { address } = http.Server.prototype; // inherited from net.Server

// Returns the address that the arguments of listen() ask for, or undefined if they ask for no port. The port 0 is any port: none is open,
// so that it stays 0.
function addressOf([first, second]) {
  let port = first;
  let host = typeof second === 'string' ? second : undefined;
  if (first !== null && typeof first === 'object') {
    ({ port, host } = first);
    if (!('port' in first)) return undefined; // a path, a descriptor, or the handle of another server
  } else if (typeof first === 'string' && !(Number(first) >= 0)) {
    return undefined; // a path
  }
  const number = Number(port);
  return { ...place(host), port: Number.isInteger(number) ? number : 0 };
}

// Returns address and family for a host. A name would have to be resolved: it is the local host in nearly all applications.
function place(host) {
  if (typeof host !== 'string' || host === '') return { address: '::', family: 'IPv6' };
  const version = net.isIP(host);
  return version === 0 ? { address: '127.0.0.1', family: 'IPv4' } : { address: host, family: `IPv${version}` };
}

// Notes the arguments of the listen() of a server. `isForCabrank`: they ask for the socket of cabrank by its name.
function noteAsked(server, args, isForCabrank) {
  const address = isForCabrank ? undefined : addressOf(args);
  if (address === undefined) asked.delete(server);
  else asked.set(server, address);
}

http.Server.prototype.address = function addressAsAsked() {
  const real = address.call(this);
  const wanted = asked.get(this);
  return typeof real === 'string' && wanted !== undefined ? { ...wanted } : real;
};

module.exports = { noteAsked };
