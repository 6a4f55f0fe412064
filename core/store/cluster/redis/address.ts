// Where Redis is, and how to get there: the URLs of the configuration, read.

/** How to reach Redis, as the configuration says it. */
export interface RedisAddress {
  /**
   * `redis://user:password@host:6379/0`, or `rediss://` for TLS. With `sentinels` the host is the name by which they
   * know the master; with `cluster` its user, password and TLS hold for all servers, and its host is asked first.
   */
  readonly url: string
  /** The URLs of the sentinels that know where the master is. */
  readonly sentinels?: readonly string[] | undefined
  /** Whether the servers are a Redis Cluster. */
  readonly cluster?: boolean | undefined
  /** PEM texts of authorities that are trusted instead of those of the system. */
  readonly ca?: string | undefined
}

/** One server. */
export interface Server {
  readonly host: string
  readonly port: number
  readonly username: string | undefined
  readonly password: string | undefined
  readonly database: number
  readonly tls: boolean
}

/** An address that was read. */
export interface Place {
  readonly server: Server
  /** Undefined where the server is asked itself. */
  readonly sentinels: readonly Server[] | undefined
  readonly cluster: boolean
  readonly ca: string | undefined
}

/**
 * Reads an address.
 * @throws Error that names what is wrong, and repeats nothing of a URL: it may have a password
 */
export function placeOf({ url, sentinels, cluster = false, ca }: RedisAddress): Place {
  if (cluster && sentinels) throw new Error('Redis: sentinels and a cluster exclude each other: leave one out')
  if (sentinels?.length === 0) throw new Error('Redis: the list of sentinels is empty: name one, or leave it out')
  const server = serverOf(url, 'url', 6379)
  if (cluster && server.database !== 0) throw new Error('Redis: a cluster has no databases but 0: leave it out of url')
  return { server, sentinels: sentinels?.map((one) => serverOf(one, 'sentinels', 26379)), cluster, ca }
}

function serverOf(text: string, member: string, usualPort: number): Server {
  const url = URL.parse(text)
  const path = /^\/?(\d{0,4})$/.exec(url?.pathname ?? '-')
  if (!url || !/^rediss?:$/.test(url.protocol) || url.hostname === '' || !path || url.search !== '' || url.hash !== '')
    throw new Error(
      `Redis: ${member} has to be like redis://user:password@host:6379/0, or rediss:// for TLS; ` +
        'special characters of a password are written as %21 and so on'
    )
  const { hostname, port, username, password, protocol } = url
  return {
    // An IPv6 address stands in brackets in a URL, and without them everywhere else.
    host: decoded(hostname, member).replace(/^\[(.*)\]$/, '$1'),
    port: port === '' ? usualPort : Number(port),
    username: decoded(username, member) || undefined,
    password: decoded(password, member) || undefined,
    database: Number(path[1]),
    tls: protocol === 'rediss:'
  }
}

function decoded(part: string, member: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    throw new Error(`Redis: ${member} has a % that begins no code: write it as %25`)
  }
}
