// Decides which proxy a channel uses: its own, or the one that the environment names.
import { BlockList, isIP } from 'node:net'
import type { ChannelProxy } from '../../core/catalogue/catalogue.ts'
import type { Environment } from '../files/variables.ts'

/** A proxy, no proxy, or what is wrong. No fault shows an address, because it may have a password. */
export type Resolved = { proxy: ChannelProxy | undefined; fault?: undefined } | { proxy?: undefined; fault: string }

/** Reads the address of a proxy; `from` is where it was given. */
export function parseProxy(text: string, from: string): Resolved {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url?.protocol.startsWith('socks'))
    return { fault: 'SOCKS is not spoken: name an HTTP proxy, like http://proxy.internal:3128' }
  const isOrigin = url?.pathname === '/' && url.search === '' && url.hash === ''
  if (!url || !isOrigin || !/^https?:$/.test(url.protocol))
    return {
      fault: 'must be an address like http://proxy.internal:3128, with user:password@ before the host if it wants them'
    }
  let credentials: string
  try {
    credentials = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`
  } catch {
    return { fault: 'user and password must be percent-encoded' }
  }
  return {
    proxy: {
      url: new URL(url.origin),
      authorization: credentials === ':' ? undefined : `Basic ${Buffer.from(credentials).toString('base64')}`,
      from
    }
  }
}

/**
 * Finds the proxy that the environment names for an upstream: `HTTPS_PROXY` for https, `HTTP_PROXY` for http, each
 * first in lower case, unless `NO_PROXY` lists the host. This machine itself is never reached through a proxy.
 */
export function environmentProxy({ protocol, hostname, port }: URL, env: Environment): Resolved {
  const name = protocol === 'https:' ? 'HTTPS_PROXY' : 'HTTP_PROXY'
  const from = env[name.toLowerCase()] === undefined ? name : name.toLowerCase()
  const text = env[from] ?? ''
  const host = hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '')
  if (
    text === '' ||
    isLocal(host) ||
    isListed(host, port || (protocol === 'https:' ? '443' : '80'), env['no_proxy'] ?? env['NO_PROXY'] ?? '')
  )
    return { proxy: undefined }
  const { proxy, fault } = parseProxy(text, from)
  return proxy ? { proxy } : { fault: `${from} in the environment: ${fault}` }
}

const loopback = new BlockList()
loopback.addSubnet('127.0.0.0', 8, 'ipv4')
loopback.addAddress('::1', 'ipv6')

/** Whether a host, by name or address, is this machine. */
export function isLocal(host: string): boolean {
  return /(^|\.)localhost$/.test(host) || (isIP(host) !== 0 && loopback.check(host, isIP(host) === 4 ? 'ipv4' : 'ipv6'))
}

/**
 * Whether `NO_PROXY` lists a host. Its entries are `*`, `example.com` with all names below it, the same with a dot or
 * `*.` in front, addresses, and subnets, each optionally with a port.
 */
function isListed(host: string, port: string, list: string): boolean {
  return list
    .toLowerCase()
    .split(/[\s,]+/)
    .some((entry) => {
      const [, name = entry, onPort = port] =
        /^(.*?):(\d+)$/.exec(isIP(entry) === 6 ? `[${entry}]:${port}` : entry) ?? []
      if (name === '' || onPort !== port) return false
      const plain = name.replace(/^\[|\]$/g, '')
      if (plain === '*') return true
      if (isIP(host) !== 0) return plain === host || isWithin(host, plain)
      const suffix = plain.replace(/^\*?\./, '').replace(/\.$/, '')
      return host === suffix || host.endsWith(`.${suffix}`)
    })
}

function isWithin(host: string, subnet: string): boolean {
  const [net = '', prefix = ''] = subnet.split('/')
  const family = isIP(net)
  if (family === 0 || family !== isIP(host) || !/^\d{1,3}$/.test(prefix) || Number(prefix) > (family === 4 ? 32 : 128))
    return false
  const list = new BlockList()
  list.addSubnet(net, Number(prefix), family === 4 ? 'ipv4' : 'ipv6')
  return list.check(host, family === 4 ? 'ipv4' : 'ipv6')
}
