// Logs which upstreams are reached in an unusual way: through a proxy, or without checking their certificates.
import type { Config } from '../catalogue/settings.ts'
import type { Logger } from '../telling/log.ts'

/** Called for each configuration before it is used. It logs where a proxy is configured, and not its address. */
export function tellWays({ channels }: Config, log: Logger): void {
  const proxied = new Map<string, string[]>()
  const unverified: string[] = []
  for (const { name, proxy, tls } of channels.values()) {
    if (proxy) proxied.set(proxy.from, [...(proxied.get(proxy.from) ?? []), name])
    if (tls?.verify === false) unverified.push(name)
  }
  for (const [from, names] of proxied)
    log.info('upstreams are reached through a proxy', {
      from: from === 'file' ? 'the configuration' : from,
      channels: names
    })
  if (unverified.length > 0)
    log.warn('upstreams are believed without looking at their certificates: tls.verify is false', {
      channels: unverified
    })
}
