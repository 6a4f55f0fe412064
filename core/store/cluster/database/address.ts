// Reads the URL of a database: where it is, who asks, and whether the connection is encrypted.
import { readFileSync } from 'node:fs'
import { checkServerIdentity } from 'node:tls'
import type { ConnectionOptions } from 'node:tls'

/** Where a database is. */
export interface Address {
  /** A name or an address, or the absolute path of a folder with a socket. */
  readonly host: string
  readonly port: number
  readonly user: string
  readonly password: string | undefined
  readonly database: string
  /** False: without TLS. Else the certificate must be valid for the host, unless the URL says otherwise. */
  readonly tls: false | ConnectionOptions
  /** Whether what is sent, passwords and prompts, can be read on the way: it goes to another machine in clear. */
  readonly exposed: boolean
  /** How long connecting and a statement may take unless a statement has a time of its own, in milliseconds. */
  readonly timeout: number
  /** For people: without the user and the password. */
  readonly shown: string
}

/** Hosts that are this machine, and folders of sockets. */
const here = /^(?:localhost|127\.[\d.]+|::1|\/.*)$/

/** The parameters that a URL may have. */
const known = ['host', 'sslmode', 'sslrootcert', 'timeout']
/** The usual and the longest time of {@link Address.timeout}, in seconds. */
const [usualTimeout, longestTimeout] = [5, 600]

/** `require` and `verify-ca` check as much as `verify-full`: encryption to nobody in particular protects nothing. */
const modes = ['disable', 'no-verify', 'require', 'verify-ca', 'verify-full'] as const

/**
 * Reads a URL: `postgres://user:password@host:5432/database`, with `host` (the folder of a socket), `sslmode`,
 * `sslrootcert` (a file) and `timeout` (seconds) as parameters.
 * @throws Error that says what is wrong, and does not repeat the URL
 */
export function readAddress(text: string): Address {
  const url = URL.parse(text)
  if (!url || !/^postgres(?:ql)?:$/.test(url.protocol))
    throw new Error('the URL of PostgreSQL must be like postgres://user:password@host:5432/database')
  for (const name of url.searchParams.keys())
    if (!known.includes(name))
      throw new Error(
        `the URL of PostgreSQL has the parameter ${JSON.stringify(name)}: it may have host, sslmode, sslrootcert and timeout`
      )
  const [user, password, database] = [url.username, url.password, url.pathname.slice(1)].map(decoded)
  if (!user) throw new Error('the URL of PostgreSQL names no user: postgres://user:password@host:5432/database')
  if (!database) throw new Error('the URL of PostgreSQL names no database: postgres://user:password@host:5432/database')
  const host = url.searchParams.get('host') ?? url.hostname.replace(/^\[|\]$/g, '')
  if (!host) throw new Error('the URL of PostgreSQL names no host: postgres://user:password@host:5432/database')
  const port = Number(url.port || 5432)
  const tls = tlsOf(url.searchParams, host)
  return {
    host,
    port,
    user,
    password: password || undefined,
    database,
    tls,
    exposed: tls === false && !here.test(host),
    timeout: timeoutOf(url.searchParams) * 1000,
    shown: `${host}:${port}/${database}`
  }
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    throw new Error('the URL of PostgreSQL has a % that begins no escape: write %25 for it')
  }
}

function timeoutOf(parameters: URLSearchParams): number {
  const text = parameters.get('timeout') ?? String(usualTimeout)
  const seconds = /^\d+$/.test(text) ? Number(text) : 0
  if (seconds >= 1 && seconds <= longestTimeout) return seconds
  throw new Error(
    `timeout in the URL of PostgreSQL is ${JSON.stringify(text)}: it may be 1 to ${longestTimeout}, in seconds`
  )
}

function tlsOf(parameters: URLSearchParams, host: string): Address['tls'] {
  const mode = (parameters.get('sslmode') ?? 'disable') as (typeof modes)[number]
  if (!modes.includes(mode))
    throw new Error(`sslmode in the URL of PostgreSQL is ${JSON.stringify(mode)}: it may be ${modes.join(', ')}`)
  if (mode === 'disable') return false
  const file = parameters.get('sslrootcert')
  return {
    rejectUnauthorized: mode !== 'no-verify',
    // Of a host that is an address Node would check the name localhost.
    checkServerIdentity: (_name, certificate) => checkServerIdentity(host, certificate),
    ...(file !== null && { ca: certificate(file) })
  }
}

function certificate(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    throw new Error(`sslrootcert in the URL of PostgreSQL cannot be read: ${(error as Error).message}`, {
      cause: error
    })
  }
}
