// When the certificates that gateway.yaml names expire.
import { X509Certificate } from 'node:crypto'
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

function expiryOf(chain: string): number {
  const found = known.get(chain)
  if (found !== undefined) return found
  const times = (chain.match(block) ?? []).map((one) => new X509Certificate(one).validToDate.getTime() / 1000)
  if (known.size >= mostKnown) known.clear()
  const first = Math.min(...times)
  known.set(chain, first)
  return first
}
