'use strict';

// The traces that a request leaves on its connection, which carries the next client's request afterwards: properties and
// listeners of the socket, and the stores of AsyncLocalStorage.
//
// Applications keep a client's data there: the user that a connection has authenticated, or the context of a request
// (`enterWith`). All of it ends with the answer, or at the latest before the next request begins. A property or store that
// was there when the connection was made stays. Listeners of 'close' are called, as if the connection had ended.

const { executionAsyncResource } = require('async_hooks');

const { defineProperty } = Reflect;

const KEYS = Symbol('the properties of the connection');
const COUNT = Symbol('the number of those that are enumerable, with those of Node');
const HIDDEN = Symbol('may have more that are not enumerable');
const ADDED = Symbol('the properties that the application gave it, with their values');
const HAS_MORE = Symbol('may have more listeners');
const RESPONSE = Symbol('the response to the latest request');
const METHODS = Symbol('the methods that the connection has of its own, and its domain');
const PROTOTYPE = Symbol('its prototype');
const LISTENERS = Symbol('the listeners of the connection');
const STORES = Symbol('the stores of the connection');
// Node adds these to a socket as it needs them.
const KEYS_OF_NODE = new Set(['timeout', 'parser', 'server', '_server', '_httpMessage', '_paused', '_parent', '_peername', '_sockname',
  '_pendingData', '_pendingEncoding', '_idleTimeout', '_idleNext', '_idlePrev', '_idleStart', '_onTimeout', '_repeat', '_destroyed']);
const OF_NODE = /^(bound )?(socketOn|onReadableStreamEnd$|onServerResponseClose$)/; // names of listeners

// `Object.keys` takes 30 ns for a socket, and `Object.getOwnPropertyNames` 1,000 ns, which is 4 % of a small request. So a property
// that is not enumerable is noticed when it is defined.
const connections = new WeakSet();
const notices = [[Object, 'defineProperty'], [Object, 'defineProperties'], [Reflect, 'defineProperty']].every(([owner, name]) => {
  const define = owner[name];
  const defineAndNote = {
    [name](target, ...rest) {
      if (connections.has(target)) Reflect.set(target, HIDDEN, true);
      return define(target, ...rest);
    },
  }[name];
  defineProperty(defineAndNote, 'length', { value: define.length });
  return Reflect.set(owner, name, defineAndNote); // false with --frozen-intrinsics
});

// Notes what a connection has before its first request. `before` are the names of its properties before the application saw it.
function note(socket, before) {
  const listeners = new Map();
  for (const event of socket.eventNames()) listeners.set(event, socket.rawListeners(event));
  socket[LISTENERS] = listeners;
  socket[HAS_MORE] = false;
  connections.add(socket);
  socket[KEYS] = new Set(Object.getOwnPropertyNames(socket));
  socket[COUNT] = Object.keys(socket).length;
  socket[HIDDEN] = !notices;
  const methods = Object.getOwnPropertyNames(socket).filter((key) => typeof socket[key] === 'function' && !KEYS_OF_NODE.has(key));
  socket[METHODS] = [...methods, 'domain'].map((key) => [key, socket[key]]);
  socket[PROTOTYPE] = Object.getPrototypeOf(socket);
  const isOfApplication = (key) => !before.has(key) && !KEYS_OF_NODE.has(key) && typeof socket[key] !== 'function';
  const added = Object.getOwnPropertyNames(socket).filter(isOfApplication);
  socket[ADDED] = added.map((key) => [key, Object.getOwnPropertyDescriptor(socket, key)]);
}

// Notes that a listener is added to a socket.
function noteListener(socket, event, listener) {
  if (event !== 'close' || typeof listener !== 'function' || listener.name !== 'onServerResponseClose') socket[HAS_MORE] = true;
}

// Takes away what earlier requests have left, before any code of the application runs for the next one: tracers set its stores
// before its event.
// Returns false if something cannot be taken away: the request must not begin.
function begins(socket) {
  // A method that was deleted would make up for a property that was added.
  return forgetStores(socket) && restoreMethods(socket) && forget(socket);
}

// Gives a socket its methods back, which a request may have replaced, and takes it out of the domain to which a request has
// added it. Returns false if that is impossible.
function restoreMethods(socket) {
  if (Object.getPrototypeOf(socket) !== socket[PROTOTYPE] && !Reflect.setPrototypeOf(socket, socket[PROTOTYPE])) return false;
  try {
    for (const [key, noted] of socket[METHODS]) {
      if (socket[key] === noted) continue;
      // It may be an accessor now, for which an assignment would do nothing.
      const enumerable = key !== 'domain';
      if (!defineProperty(socket, key, { value: noted, writable: true, configurable: true, enumerable })) return false;
    }
  } catch { // an accessor of the application
    return false;
  }
  return true;
}

// Notes the response to the request that begins.
function began(socket, response) {
  socket[RESPONSE] = response;
}

// Ends an answer. The next request can have begun before, because the client of a long answer has it all a moment earlier.
function ended(socket, response) {
  // Listeners of the response, which run now, may still remove those of the socket.
  const hasTraces = socket[HAS_MORE] || socket[HIDDEN] || Object.keys(socket).length !== socket[COUNT];
  // A trace that cannot be taken away ends the connection now, before the server sends the next request.
  if (hasTraces && socket[RESPONSE] === response) process.nextTick(forget, socket);
}

// Takes away what a request has left on its socket. A connection that is about to close needs its listeners. Returns false, and
// ends the connection with what it is sending, if something cannot be taken away.
function forget(socket) {
  if (socket.writableEnded) return true;
  let isClean = true;
  // First: otherwise one that was deleted would make up for one that was added.
  for (const [key, noted] of socket[ADDED]) {
    const now = Object.getOwnPropertyDescriptor(socket, key);
    const isSame = now !== undefined && now.value === noted.value && now.get === noted.get && now.set === noted.set;
    if (!isSame && !defineProperty(socket, key, noted)) isClean = false;
  }
  if (socket[HIDDEN] || Object.keys(socket).length !== socket[COUNT]) isClean = forgetProperties(socket) && isClean;
  if (!isClean) socket.destroySoon();
  if (!socket[HAS_MORE]) return isClean;
  socket[HAS_MORE] = false;
  for (const event of socket.eventNames()) {
    if (event !== 'timeout') forgetListeners(socket, event, socket[LISTENERS].get(event) || []);
  }
  return isClean;
}

// Returns whether each property that the application has added is gone.
function forgetProperties(socket) {
  let isClean = true;
  for (const key of Object.getOwnPropertyNames(socket)) {
    if (socket[KEYS].has(key) || KEYS_OF_NODE.has(key)) continue;
    if (!Reflect.deleteProperty(socket, key)) isClean = false; // the next client would find it
  }
  socket[COUNT] = Object.keys(socket).length;
  socket[HIDDEN] = !notices;
  return isClean;
}

function forgetListeners(socket, event, lasting) {
  for (const listener of socket.rawListeners(event)) {
    if (lasting.includes(listener) || OF_NODE.test(listener.name) || OF_NODE.test((listener.listener || listener).name)) continue;
    socket.removeListener(event, listener);
    if (event === 'close') process.nextTick(call, listener, socket);
  }
}

function call(listener, socket) {
  listener.call(socket, false);
}

// Gives the stores of AsyncLocalStorage the values that they had before the first request of the connection. Up to Node 23 they
// are properties of the resource of the connection's parser, in which all of its requests begin. An application may give the
// resource other properties, also such as cannot be changed again. Returns whether all have their former values.
function forgetStores(socket) {
  const resource = executionAsyncResource();
  const keys = Reflect.ownKeys(resource);
  const noted = socket[STORES];
  if (noted === undefined || noted.resource !== resource) {
    const values = new Map();
    for (const key of keys) values.set(key, resource[key]);
    socket[STORES] = { resource, values };
    return true;
  }
  try {
    for (const key of keys) {
      const before = noted.values.get(key);
      if (resource[key] !== before && !(Reflect.set(resource, key, before) && resource[key] === before)) return false;
    }
  } catch { // a property with a function of the application
    return false;
  }
  return true;
}

module.exports = { began, begins, ended, note, noteListener };
