const { createHash } = require('crypto');
const fs = require('fs');
const path = require('path');
const { Readable } = require('stream');
const { setTimeout: pause } = require('timers/promises');
const fastify = require('fastify')({ logger: true, bodyLimit: 30_000_000 });

const VERSION = fs.readFileSync(path.join(__dirname, 'VERSION'), 'utf8').trim();
const query = (request) => request.raw.url.split('?')[1];

fastify.addContentTypeParser('application/octet-stream', (request, payload, done) => done(null, payload));

fastify.get('/', async () => `Hello from Fastify, version ${VERSION}`);

fastify.get('/stream', (request, reply) => {
  async function* parts() {
    yield 'first\n';
    while (!fs.existsSync(path.join(__dirname, 'go'))) await pause(10);
    yield 'last\n';
  }
  reply.type('text/plain').send(Readable.from(parts()));
});

fastify.post('/upload', async (request) => {
  const digest = createHash('sha256');
  for await (const part of request.body) digest.update(part);
  return digest.digest('hex');
});

fastify.get('/log', async (request) => {
  request.log.info(`logged ${query(request)}`);
  return 'ok';
});

fastify.get('/error', async (request) => {
  throw new Error(`broken on purpose ${query(request)}`);
});

fastify.listen({ port: process.env.PORT || 3000 });
