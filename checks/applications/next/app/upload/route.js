import { createHash } from 'crypto';

export async function POST(request) {
  const digest = createHash('sha256');
  for await (const part of request.body) digest.update(part);
  return new Response(digest.digest('hex'));
}
