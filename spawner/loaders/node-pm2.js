'use strict';

// Parts of pm2 that applications use: `process.send`, and handlers of SIGINT.

const os = require('os');

// Ctrl-C reaches the whole process group of a terminal. The server decides about the shutdown, or the application's own
// handler.
function ignoreInterrupt() {}

process.on('SIGINT', ignoreInterrupt);

// Under pm2 a process has a channel to its parent. Here is none, and the process is ready when it listens, so that a message such as
// 'ready' is dropped. `process.connected` stays undefined.
if (typeof process.send !== 'function') {
  process.send = function send(...args) {
    const callback = args.find((arg) => typeof arg === 'function');
    if (callback !== undefined) process.nextTick(callback, null);
    return true;
  };
}

// Calls the application's handlers of the signal that asks it to leave: SIGTERM, or SIGINT where it has more handlers for that one. A
// library such as signal-exit adds a handler to both. Returns whether there was one.
function emitSignal() {
  const hasOwn = process.listeners('SIGINT').includes(ignoreInterrupt);
  const interrupts = process.listenerCount('SIGINT') - (hasOwn ? 1 : 0);
  const signal = interrupts > process.listenerCount('SIGTERM') ? 'SIGINT' : 'SIGTERM';
  // A library that finds no handlers but its own ends the process.
  if (signal === 'SIGINT') process.removeListener('SIGINT', ignoreInterrupt);
  return process.emit(signal, signal, os.constants.signals[signal]);
}

module.exports = { emitSignal };
