import fs from 'fs';

export const dynamic = 'force-dynamic';

const VERSION = fs.readFileSync('VERSION', 'utf8').trim();

export function GET() {
  return new Response(`Hello from Next, version ${VERSION}`);
}
