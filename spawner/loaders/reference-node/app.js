// The reference application of conformance.py for loaders of Node applications.

const http = require('http');
const net = require('net');

// The path /steps: what the player of walks commands (walks.py).
function steps(request, response) {
  const { control, mark } = request.headers;
  const commands = {
    read: () => `got ${request.read(10) || ''}`,
    write: () => {
      if (response.writableEnded || response.destroyed) return 'error';
      response.write(mark);
      return 'ok';
    },
    fork: () => 'none',
    'leave-reader': () => obey('reader') && 'ok',
    'leave-writer': () => obey('writer') && 'ok',
    end: (player) => player.end(),
    'end-answer': (player) => {
      response.end();
      player.end();
    },
    abort: (player) => {
      response.destroy();
      player.end();
    },
  };
  request.on('error', () => {});
  response.on('error', () => {});

  function obey(kind) {
    const player = net.connect(control, () => player.write(`${kind} ${mark}\n`));
    player.on('error', () => {});
    player.setEncoding('utf8').on('data', (text) => {
      for (const command of text.split('\n').filter(Boolean)) {
        const reply = commands[command](player);
        if (typeof reply === 'string') player.write(`${reply}\n`);
      }
    });
    return true;
  }
  obey('request');
}

async function answer(request, response) {
  const [path, query] = request.url.split('?');
  switch (path) {
    case '/echo': {
      response.setHeader('X-Seen', `${request.headers['x-one'] || ''},${query || ''}`);
      const parts = [];
      for await (const part of request) parts.push(part);
      response.end(Buffer.concat(parts));
      break;
    }
    case '/unread':
      response.end('unread');
      break;
    case '/stream':
      response.write('one');
      for await (const part of request);
      response.end('two');
      break;
    case '/endless': {
      const more = () => {
        while (!response.destroyed && response.write(Buffer.alloc(1000)));
      };
      response.on('drain', more);
      more();
      break;
    }
    case '/fail':
      throw new Error('asked to fail');
    case '/late':
      response.write('begun');
      throw new Error('asked to fail late');
    case '/short':
      response.setHeader('Content-Length', 10);
      response.write('begun', () => response.destroy());
      break;
    case '/steps':
      steps(request, response);
      break;
    case '/origin':
      response.end(`${request.url} ${request.socket.remoteAddress} ${request.socket.remotePort}`);
      break;
    case '/empty':
      response.writeHead(204).end();
      break;
    default:
      response.writeHead(404).end();
  }
}

http.createServer((request, response) => {
  // Node leaves the error of a request to the application.
  answer(request, response).catch((error) => {
    console.error(error);
    if (response.headersSent) setImmediate(() => response.destroy());
    else response.writeHead(500).end();
  });
}).listen(3000);
