// The custom server of Next's guide. Several development servers cannot share a directory, so this serves what `next build` has made.
const { createServer } = require('http');
const next = require('next');

const app = next({ dev: false });
const handle = app.getRequestHandler();

app.prepare().then(() => createServer((request, response) => handle(request, response)).listen(process.env.PORT || 3000));
