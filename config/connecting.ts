// How a channel connects to its upstream: the keys of gateway.yaml for it, and what they mean to the core.
import { isIP } from 'node:net'
import { isMap } from '../core/options/schema-check.ts'
import type { Certificates } from './certificates.ts'
import type { Channel, ChannelTls } from '../core/catalogue/catalogue.ts'
import type { OptionSchema, OptionSchemas, OptionValues } from '../core/options/schema.ts'
import type { Report } from './report.ts'

const file = { type: 'string', minLength: 1 } as const satisfies Partial<OptionSchema>

export const connectingShape = {
  tls: {
    type: 'object',
    description: 'How an https:// upstream is spoken to; what is left out is as usual.',
    properties: {
      ca: { ...file, description: 'PEM file with the certificates to trust instead of the public ones, relative to this file.' },
      cert: { ...file, description: 'PEM file with the certificate chain to show to the upstream, relative to this file.' },
      key: { ...file, description: 'PEM file with the private key of cert, relative to this file.' },
      server_name: {
        type: 'string', pattern: '^[A-Za-z0-9_]([A-Za-z0-9._-]{0,251}[A-Za-z0-9_])?$', patternErrorMessage: 'a host name',
        description: "Name to ask for, which the upstream's certificate must have, instead of the host of base_url."
      },
      verify: { type: 'boolean', default: true, description: 'false believes whoever answers: for trying out alone.' }
    }
  }
} as const satisfies OptionSchemas

type Entry = OptionValues<typeof connectingShape>

/** What the core is told of a channel's way to its upstream. */
type Connecting = Pick<Channel, 'tls'>

/** Resolves a channel's keys for it; undefined when one is faulty. `baseUrl` is undefined when it is; `simulated`: it leads to the simulator. */
export function readConnecting(
  name: string, entry: Entry, baseUrl: URL | undefined, simulated: boolean, certificates: Certificates, report: Report
): Connecting | undefined {
  const tls = readTls(name, entry.tls, baseUrl, simulated, certificates, report)
  return report.sound('channels', name, 'tls') ? { tls } : undefined
}

function readTls(
  name: string, entry: Entry['tls'], baseUrl: URL | undefined, simulated: boolean, certificates: Certificates, report: Report
): ChannelTls | undefined {
  const path = ['channels', name, 'tls']
  if (!isMap(entry) || !report.sound(...path)) return undefined
  const { ca: caFile, cert, key, server_name: serverName, verify } = entry
  if (simulated) report.key(path, 'a simulator is spoken to without TLS: remove this')
  else if (baseUrl?.protocol === 'http:') report.key(path, 'there is no TLS with an http:// address: remove this, or write https:// in "base_url"')
  if (cert === undefined && key !== undefined) report.key([...path, 'key'], 'there is no "cert" that it could be the key of')
  if (cert !== undefined && key === undefined) report.key([...path, 'cert'], 'its private key is missing: name it in "key"')
  if (!verify && caFile !== undefined) report.key([...path, 'ca'], 'nothing is looked for in it with "verify: false": keep one of the two')
  if (serverName !== undefined && isIP(serverName) !== 0) report.value([...path, 'server_name'], 'must be a name, not an address')
  const identity = cert === undefined || key === undefined ? undefined : certificates.identity(path, { cert, key })
  const ca = caFile === undefined ? undefined : certificates.authorities([...path, 'ca'], caFile)
  return { ca, identity, serverName, verify }
}
