// Which account at an upstream a channel uses. Things stored there can be reached through every channel with that
// account.
import { hash } from 'node:crypto'
import { ownerOf } from '../credentials/source.ts'
import type { Channel } from './catalogue.ts'

/**
 * A fingerprint of the account of a channel. A channel without a credential may have one among its headers. One with
 * several credentials has an account for each, and its own fingerprint is of nothing that is stored anywhere.
 */
export function accountOf(channel: Channel): string {
  const { baseUrl, credential, living, headers, byCredential } = channel
  if (byCredential) return fingerprint('', JSON.stringify(byCredential.map(accountOf)))
  return fingerprint(
    baseUrl.href,
    credential !== '' ? credential : living ? ownerOf(living.source) : JSON.stringify(headers)
  )
}

function fingerprint(place: string, owner: string): string {
  return hash('sha256', `${place}\0${owner}`).slice(0, 32)
}

/** A channel once for each account that it uses: itself, or with each of its credentials. */
export function byAccount(channel: Channel): readonly Channel[] {
  return channel.byCredential ?? [channel]
}

/** Channels as they are in the file, and after each that has several credentials, the same with each of them. */
export function withEachCredential(channels: Iterable<Channel>): Channel[] {
  return Array.from(channels).flatMap((channel) => [channel, ...(channel.byCredential ?? [])])
}

/**
 * The channel of this name, with the credential of the account if it has that, otherwise another channel that does;
 * undefined when there is none.
 */
export function channelTo(account: string, name: string, channels: ReadonlyMap<string, Channel>): Channel | undefined {
  const named = channels.get(name)
  const all = [...(named ? byAccount(named) : []), ...Array.from(channels.values()).flatMap(byAccount)]
  return all.find((channel) => accountOf(channel) === account)
}
