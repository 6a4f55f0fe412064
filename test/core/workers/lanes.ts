// Connections of which each leads to another worker.
import { join } from 'node:path'
import type { Test } from 'tap'
import { connect } from '../../kit/client.ts'
import type { Client, ReceivedReply, RequestParts } from '../../kit/client.ts'
import { testKey } from '../../kit/gateway.ts'

/** What a gateway.yaml needs for it. */
export const named = {
  plugins: { named: join(import.meta.dirname, 'named.ts') },
  chain: ['named', 'auth', 'quota', 'ratelimit', 'route', 'protocol-translate', 'usage-meter'].map((name) => ({
    [name]: {}
  }))
}

/** The answer to the next request on a connection. */
export function askOn(client: Client, parts: RequestParts): Promise<ReceivedReply> {
  const before = client.replies.length
  return client.send({ ...parts, headers: { authorization: `Bearer ${testKey}`, ...parts.headers } }).reply(before)
}

/** One connection to each of so many workers. */
export async function lanes(t: Test, { url }: { url: string }, count = 2): Promise<readonly Client[]> {
  const found = new Map<string, Client>()
  while (found.size < count) {
    const client = await connect(t, url)
    const { headers } = await askOn(client, { path: '/v1/models' })
    const thread = headers['x-thread']!
    if (found.has(thread)) client.close()
    else found.set(thread, client)
  }
  return [...found.values()]
}
