// Which addresses are on the public internet. A channel may connect to no others, unless it is declared private.
import { BlockList, isIP } from 'node:net'

/** The IPv4 special-purpose registry (RFC 6890 and its updates), multicast, and the reserved block at the top. */
const reserved4 = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4]
] as const

/**
 * Global unicast is `2000::/3`. Everything outside it is not public, which covers loopback, unique-local and link-local
 * addresses, and the forms that carry an IPv4 address (mapped, compatible, NAT64). Inside it, these are not public:
 * protocol assignments with Teredo, documentation, and 6to4, which would reach the IPv4 address that it carries.
 */
const reserved6 = [
  ['::', 3],
  ['4000::', 2],
  ['8000::', 1],
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20]
] as const

// One list per family: BlockList compares IPv4 addresses with IPv6 rules in the mapped form, and `::/3` would match
// them all.
const blocked4 = new BlockList()
for (const [net, prefix] of reserved4) blocked4.addSubnet(net, prefix, 'ipv4')
const blocked6 = new BlockList()
for (const [net, prefix] of reserved6) blocked6.addSubnet(net, prefix, 'ipv6')

/**
 * Whether this is a public unicast address. Takes an IP address as `net.isIP` does, IPv6 without brackets. False for
 * names, addresses with a zone, and everything else. Takes a fraction of a microsecond; checked for every address that
 * a name resolves to, so that a name cannot be redirected to an internal address later.
 */
export function isPublic(address: string): boolean {
  const family = isIP(address)
  if (family === 4) return !blocked4.check(address, 'ipv4')
  return family === 6 && !address.includes('%') && !blocked6.check(address, 'ipv6')
}
