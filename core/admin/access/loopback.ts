// Which addresses and names are of this machine.
import { isIPv4 } from 'node:net'

/** Whether an address is a loopback address, also one of IPv4 as IPv6 writes it. */
export function isLoopback(address: string): boolean {
  const plain = address.startsWith('::ffff:') ? address.slice(7) : address
  return plain === '::1' || (isIPv4(plain) && plain.startsWith('127.'))
}

/** The name or address in a header `Host`, without brackets and port; undefined when it has no form of either. */
export function nameIn(host: string): string | undefined {
  const [, name] = /^(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(?::\d{1,5})?$/i.exec(host) ?? []
  return name?.startsWith('[') ? name.slice(1, -1) : name
}

/** Whether a header `Host` has a loopback address, or a name that resolves to one everywhere. */
export function isLoopbackHost(host: string): boolean {
  const name = nameIn(host)
  return name !== undefined && (isLoopback(name) || /^(?:.+\.)?localhost$/i.test(name))
}
