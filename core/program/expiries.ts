// When the certificates that gateway.yaml names expire, and the credentials of channels.
import { X509Certificate } from 'node:crypto'
import { byAccount } from '../catalogue/account.ts'
import type { Channel } from '../catalogue/catalogue.ts'
import type { Config } from '../catalogue/settings.ts'
import { credentialOf } from '../credentials/credentials.ts'
import { tokenExpiryOf } from '../credentials/grant.ts'

const block = /-----BEGIN CERTIFICATE-----[^]*?-----END CERTIFICATE-----/g

/** The times by the text of a file: a certificate is parsed once and not at every scrape. */
const known = new Map<string, number>()
const mostKnown = 1000

/**
 * For each chain of certificates in a configuration, when the first of them expires, in Unix seconds. The
 * listener's has no channel.
 */
export function expiriesOf({
  settings,
  channels
}: Pick<Config, 'settings' | 'channels'>): (readonly [{ use: 'listen' | 'channel'; channel: string }, number])[] {
  const { tls } = settings.listen
  return [
    ...(tls ? [[{ use: 'listen', channel: '' }, expiryOf(tls.cert)] as const] : []),
    ...Array.from(channels.values()).flatMap(({ name, tls: own }) =>
      own?.identity ? [[{ use: 'channel', channel: name }, expiryOf(own.identity.cert)] as const] : []
    )
  ]
}

/**
 * When what a channel identifies itself with expires, in Unix milliseconds: its certificate, a credential that is a
 * JSON Web Token, or the present one of those that are renewed, whichever ends first of all of its credentials.
 * Undefined when nobody says so.
 */
export function channelExpiryOf(channel: Channel): number | undefined {
  return firstOf(
    ...byAccount(channel).flatMap((one) => [
      fixedExpiryOf(one),
      one.living && credentialOf(one.living.source)?.state.expiresAt
    ])
  )
}

/** The same of what nobody but an operator renews. */
export function fixedExpiryOf({ credential, tls }: Pick<Channel, 'credential' | 'tls'>): number | undefined {
  return firstOf(tokenExpiryOf(credential), tls?.identity && expiryOf(tls.identity.cert) * 1000)
}

function firstOf(...times: readonly (number | undefined)[]): number | undefined {
  const known = times.filter((time) => time !== undefined)
  return known.length === 0 ? undefined : Math.min(...known)
}

function expiryOf(chain: string): number {
  const found = known.get(chain)
  if (found !== undefined) return found
  const times = (chain.match(block) ?? []).map((one) => new X509Certificate(one).validToDate.getTime() / 1000)
  if (known.size >= mostKnown) known.clear()
  const first = Math.min(...times)
  known.set(chain, first)
  return first
}
