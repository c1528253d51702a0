import fs from 'fs';
import { setTimeout as pause } from 'timers/promises';

export const dynamic = 'force-dynamic';

async function* parts() {
  const encoder = new TextEncoder();
  yield encoder.encode('first\n');
  while (!fs.existsSync('go')) await pause(10);
  yield encoder.encode('last\n');
}

export function GET() {
  return new Response(ReadableStream.from(parts()), { headers: { 'Content-Type': 'text/plain' } });
}
