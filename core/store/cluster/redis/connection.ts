// Connections to Redis by the library: to one server, to the master that sentinels name, or to all of a cluster.
import type { RedisClientOptions, RedisFunctions, RedisModules, RedisScripts } from '@redis/client'
import type { Place, Server } from './address.ts'
import { loadPackage } from './package.ts'

/** The older protocol is known to every server, and one command shorter. */
type ClientOptions = RedisClientOptions<RedisModules, RedisFunctions, RedisScripts, 2>

/** What a script answers: bytes, a whole number, or nothing. */
export type Reply = Buffer | number | null

/** A connection, or those to a cluster. Nothing that was sent is ever sent again. */
export interface Connection {
  /** Sends a command. `key`: one that it is about, which finds the server in a cluster. */
  send(key: string, command: string[]): Promise<Reply>
  /** Ends it at once. What was not answered fails. */
  destroy(): void
}

/** How to connect. */
export interface Connecting {
  readonly place: Place
  /** Milliseconds until a server must have taken the connection. */
  readonly timeout: number
  /** Called when the connection is lost for good, once or more; never by {@link Connection.destroy}. */
  readonly lost: (error: unknown) => void
}

/**
 * Connects. Resolves when commands can be sent.
 * @throws Error of the library or of the system
 */
export async function connect(connecting: Connecting): Promise<Connection> {
  const { place } = connecting
  if (place.cluster) return connectCluster(connecting)
  if (!place.sentinels) return connectServer(place.server, connecting)
  const server = { ...place.server, ...(await findMaster(place.sentinels, place.server.host, connecting)) }
  const connection = await connectServer(server, connecting)
  try {
    // Sentinels may tell of a master that has just become a replica.
    const [role] = (await answered(connection, ['ROLE'], connecting.timeout)) as unknown as [Buffer]
    if (String(role) !== 'master') throw new Error('READONLY what the sentinels call master is a replica')
    return connection
  } catch (error) {
    connection.destroy()
    throw error
  }
}

async function optionsOf(server: Server, { place: { ca }, timeout }: Connecting): Promise<ClientOptions> {
  const { RESP_TYPES } = await loadPackage()
  const { host, port, username, password, database, tls } = server
  return {
    ...(username !== undefined && { username }),
    ...(password !== undefined && { password }),
    ...(database !== 0 && { database }),
    // The name of the server is checked, whatever the environment says of certificates.
    socket: {
      host,
      port,
      connectTimeout: timeout,
      reconnectStrategy: false,
      ...(tls && { tls: true as const, rejectUnauthorized: true, ...(ca !== undefined && { ca }) })
    },
    // What has waited would be sent after a request was decided otherwise.
    disableOfflineQueue: true,
    RESP: 2,
    maintNotifications: 'disabled',
    disableClientInfo: true,
    // The timeout of the library ends with the sending of a command, and costs a timer for each.
    commandOptions: { timeout: 0, typeMapping: { [RESP_TYPES.BLOB_STRING]: Buffer } }
  }
}

async function connectServer(server: Server, connecting: Connecting): Promise<Connection> {
  const { createClient } = await loadPackage()
  const client = createClient(await optionsOf(server, connecting))
  let ended = false
  const destroy = (): void => {
    ended = true
    client.destroy()
  }
  client.on('error', (error) => {
    if (!ended) connecting.lost(error)
  })
  // The library limits the time to connect, but not that of the first commands.
  const late = setTimeout(destroy, 2 * connecting.timeout)
  try {
    await client.connect()
    if (ended) throw new Error('closed')
  } catch (error) {
    if (ended) throw new Error('TIMEOUT the server did not answer in time', { cause: error })
    destroy()
    throw error
  } finally {
    clearTimeout(late)
  }
  return { send: (_key, command) => client.sendCommand(command) as unknown as Promise<Reply>, destroy }
}

async function connectCluster(connecting: Connecting): Promise<Connection> {
  const { createCluster } = await loadPackage()
  const { server } = connecting.place
  const { socket, ...options } = await optionsOf(server, connecting)
  const cluster = createCluster({
    rootNodes: [{ ...options, socket: { ...socket, host: server.host, port: server.port } }],
    defaults: {
      ...options,
      socket: { ...socket, reconnectStrategy: (retries) => Math.min(50 * 2 ** retries, 500) } as NonNullable<
        typeof socket
      >
    },
    topologyRefreshOnReconnectionAttemptStrategy: 200,
    RESP: 2,
    commandOptions: options.commandOptions!
  })
  // A server that is lost is found again by the library, or another one that took its place.
  cluster.on('error', () => {})
  let late: NodeJS.Timeout | undefined
  try {
    // The library does not limit the time of finding out which servers there are.
    const tooLate = new Promise<never>((_, reject) => {
      late = setTimeout(() => reject(new Error('TIMEOUT the cluster did not answer in time')), 2 * connecting.timeout)
    })
    await Promise.race([cluster.connect(), tooLate])
  } catch (error) {
    cluster.destroy()
    throw error
  } finally {
    clearTimeout(late)
  }
  return {
    send: (key, command) => cluster.sendCommand(key, false, command) as unknown as Promise<Reply>,
    destroy: () => cluster.destroy()
  }
}

/** Asks one sentinel after another where the master is. */
async function findMaster(
  sentinels: readonly Server[],
  name: string,
  connecting: Connecting
): Promise<Pick<Server, 'host' | 'port'>> {
  let failure: unknown
  for (const sentinel of sentinels) {
    let connection: Connection | undefined
    try {
      connection = await connectServer(sentinel, { ...connecting, lost: () => {} })
      const asked = ['SENTINEL', 'get-master-addr-by-name', name]
      const found = (await answered(connection, asked, connecting.timeout)) as unknown as [Buffer, Buffer] | null
      if (found) return { host: String(found[0]), port: Number(found[1]) }
      failure = new Error('NOMASTER the sentinels know no master of that name')
    } catch (error) {
      failure = error
    } finally {
      connection?.destroy()
    }
  }
  throw failure
}

/** The answer to a command; the connection is destroyed when there is none in time. */
async function answered(connection: Connection, command: string[], timeout: number): Promise<Reply> {
  const late = setTimeout(() => connection.destroy(), timeout)
  try {
    return await connection.send('', command)
  } finally {
    clearTimeout(late)
  }
}
