export function GET(request) {
  console.log(`logged ${request.nextUrl.search.slice(1).replace('=', '')}`);
  return new Response('ok');
}
