export const dynamic = 'force-dynamic';

export default async function Page({ searchParams }) {
  throw new Error(`broken on purpose ${Object.keys(await searchParams)[0]}`);
}
