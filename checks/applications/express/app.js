const { createHash } = require('crypto');
const fs = require('fs');
const path = require('path');
const express = require('express');

const app = express();
const VERSION = fs.readFileSync(path.join(__dirname, 'VERSION'), 'utf8').trim();
const query = (request) => request.originalUrl.split('?')[1];

app.get('/', (request, response) => response.send(`Hello from Express, version ${VERSION}`));

app.get('/stream', (request, response) => {
  response.type('text/plain').write('first\n');
  const timer = setInterval(() => {
    if (!fs.existsSync(path.join(__dirname, 'go'))) return;
    clearInterval(timer);
    response.end('last\n');
  }, 10);
});

app.post('/upload', (request, response) => {
  const digest = createHash('sha256');
  request.on('data', (part) => digest.update(part));
  request.on('end', () => response.send(digest.digest('hex')));
});

app.get('/log', (request, response) => {
  console.log(`logged ${query(request)}`);
  response.send('ok');
});

app.get('/error', (request) => {
  throw new Error(`broken on purpose ${query(request)}`);
});

app.get('/below', (request, response) => {
  response.cookie('seen', '1', { path: request.baseUrl }).redirect(`${request.baseUrl}/log`);
});

app.use('/files', express.static(path.join(__dirname, 'files')));

const root = express();
root.use(process.env.PASSENGER_BASE_URI || '/', app);
root.listen(process.env.PORT || 3000);
