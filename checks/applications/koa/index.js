const { createHash } = require('crypto');
const fs = require('fs');
const path = require('path');
const { Readable } = require('stream');
const { setTimeout: pause } = require('timers/promises');
const Koa = require('koa');

const app = new Koa();
const VERSION = fs.readFileSync(path.join(__dirname, 'VERSION'), 'utf8').trim();

async function* parts() {
  yield 'first\n';
  while (!fs.existsSync(path.join(__dirname, 'go'))) await pause(10);
  yield 'last\n';
}

app.use(async (context) => {
  switch (context.path) {
    case '/':
      context.body = `Hello from Koa, version ${VERSION}`;
      break;
    case '/stream':
      context.type = 'text/plain';
      context.body = Readable.from(parts());
      break;
    case '/upload': {
      const digest = createHash('sha256');
      for await (const part of context.req) digest.update(part);
      context.body = digest.digest('hex');
      break;
    }
    case '/log':
      console.log(`logged ${context.querystring}`);
      context.body = 'ok';
      break;
    case '/error':
      throw new Error(`broken on purpose ${context.querystring}`);
  }
});

app.listen(process.env.PORT || 3000);
