// Which account at an upstream a channel uses. Things stored there can be reached through every channel with that
// account.
import { hash } from 'node:crypto'
import { ownerOf } from '../credentials/source.ts'
import type { Channel } from './catalogue.ts'

/** A fingerprint of the account of a channel. A channel without a credential may have one among its headers. */
export function accountOf({ baseUrl, credential, living, headers }: Channel): string {
  const owner = credential !== '' ? credential : living ? ownerOf(living.source) : JSON.stringify(headers)
  return hash('sha256', `${baseUrl.href}\0${owner}`).slice(0, 32)
}

/**
 * The channel of this name if it uses the account, otherwise another channel that does; undefined when there is none.
 */
export function channelTo(account: string, name: string, channels: ReadonlyMap<string, Channel>): Channel | undefined {
  const named = channels.get(name)
  if (named && accountOf(named) === account) return named
  return [...channels.values()].find((channel) => accountOf(channel) === account)
}
