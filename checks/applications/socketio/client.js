// Thirty clients, which begin with long polling and go on with a WebSocket. Prints `ok` if each gets its message back.
const { io } = require('socket.io-client');

const ask = (number) => new Promise((resolve, reject) => {
  const socket = io(`http://127.0.0.1:${process.argv[2]}`, { reconnection: false });
  socket.on('connect_error', reject);
  socket.on('connect', () => {
    const engine = socket.io.engine;
    const echo = () => socket.emit('echo', `message ${number}`, (text) => {
      socket.close();
      if (text === `message ${number}` && engine.transport.name === 'websocket') resolve();
      else reject(new Error(`${text} by ${engine.transport.name}`));
    });
    if (engine.transport.name === 'websocket') echo();
    else engine.once('upgrade', echo);
  });
});

Promise.all(Array.from({ length: 30 }, (_, number) => ask(number))).then(
  () => console.log('ok'),
  (error) => console.log(error),
);
