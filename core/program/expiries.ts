// When the certificates that gateway.yaml names expire, and the credentials of channels.
import { X509Certificate } from 'node:crypto'
import type { Channel } from '../catalogue/catalogue.ts'
import type { Config } from '../catalogue/settings.ts'

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
 * When what a channel identifies itself with expires, in Unix milliseconds: its certificate, or a credential that is a
 * JSON Web Token (RFC 7519 section 4.1.4), whichever ends first. Undefined when neither says so.
 */
export function channelExpiryOf({ credential, tls }: Pick<Channel, 'credential' | 'tls'>): number | undefined {
  const times = [tokenExpiryOf(credential), tls?.identity && expiryOf(tls.identity.cert)]
  const known = times.filter((time) => time !== undefined)
  return known.length === 0 ? undefined : Math.min(...known) * 1000
}

function tokenExpiryOf(credential: string): number | undefined {
  const [, claims] = /^eyJ[\w-]*\.(eyJ[\w-]*)\.[\w-]*$/.exec(credential) ?? []
  if (claims === undefined) return undefined
  try {
    const { exp } = JSON.parse(Buffer.from(claims, 'base64url').toString()) as { exp?: unknown }
    // A Date has no times beyond this one.
    return typeof exp === 'number' && exp >= 0 && exp <= 8.64e12 ? exp : undefined
  } catch {
    return undefined
  }
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
