// Which account of an upstream a channel uses: what is kept there is reached with it, whatever the channel is called.
import { hash } from 'node:crypto'
import type { Channel } from './catalogue.ts'

/** A fingerprint of the account. Who has no credential may have one among the headers. */
export function accountOf({ baseUrl, credential, headers }: Channel): string {
  return hash('sha256', `${baseUrl.href}\0${credential === '' ? JSON.stringify(headers) : credential}`).slice(0, 32)
}

/** The channel of that name, if it still uses the account, or else another way to it; undefined when there is none. */
export function channelTo(account: string, name: string, channels: ReadonlyMap<string, Channel>): Channel | undefined {
  const named = channels.get(name)
  if (named && accountOf(named) === account) return named
  return [...channels.values()].find((channel) => accountOf(channel) === account)
}
