'use strict';

// The client of each request, and the address of a socket, which is that of its latest request's client.
//
// The server writes the origin of a request in front of its target: `/PASSWORD,SCHEME;ADDRESS;PORT,TARGET`, perhaps with the path of
// the application's mount behind the port. The target has that path, too, and an application mounts its routes there. It does so for each
// request, so that a client's own target never stands there. The origin is taken away before the application sees the request.
// A target without it is one of a program that has connected to the socket of this process: the modes of its directory admit no
// other user, so that the comparison needs no constant time.
//
// An application that reads a connection itself, or `rawPacket` of a 'clientError', sees the target with its origin. A client who learns
// the password of it can forge nothing by it.
//
// `socket.encrypted` is true if the client's scheme is `https`: frameworks ask it first, whatever proxies they trust. Some applications
// define it themselves, and such a property ends with the request, as others do.
//
// A request that does not read the address pays for one search in its target, and nothing else.

const net = require('net');

const LATEST = Symbol('latest request');
const ORIGIN = Symbol('the origin of a request');

let mark; // of a target with an origin

function setPassword(password) {
  if (password) mark = `/${password},`;
}

// Takes the origin away from the target of a request that begins.
function takeOrigin(request) {
  const { url } = request;
  if (mark === undefined || !url.startsWith(mark)) return;
  const end = url.indexOf(',', mark.length);
  if (end < 0) return;
  request[ORIGIN] = url.slice(mark.length, end);
  request.url = url.slice(end + 1);
}

// Returns the parts of the origin of the latest request, or undefined.
function originOf(socket) {
  const request = socket[LATEST];
  return request && request[ORIGIN] && request[ORIGIN].split(';');
}

const { prototype } = net.Socket;

// Returns a property of a socket: that of the client, or the socket's own.
function property(name, ofClient) {
  return {
    get() {
      const origin = originOf(this);
      return origin === undefined ? Reflect.get(prototype, name, this) : ofClient(origin);
    },
  };
}

// The properties of a socket to the server. The port is 0 if the proxy has not reported it.
const CLIENT = {
  remoteAddress: property('remoteAddress', ([, address]) => address),
  remoteFamily: property('remoteFamily', ([, address]) => ({ 4: 'IPv4', 6: 'IPv6' })[net.isIP(address)]),
  remotePort: property('remotePort', ([, , port]) => Number(port)),
};

Object.defineProperty(prototype, 'encrypted', {
  get() {
    const origin = originOf(this);
    return (origin !== undefined && origin[0] === 'https') || undefined;
  },
  set(value) {
    Object.defineProperty(this, 'encrypted', { value, writable: true, enumerable: true, configurable: true });
  },
  configurable: true,
});

module.exports = { CLIENT, LATEST, setPassword, takeOrigin };
