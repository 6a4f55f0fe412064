// Connections to Redis: to one server, to the master that sentinels name, or, by the library, to all of a cluster.
import { addAbortListener } from 'node:events'
import type { Server } from './address.ts'
import type { Connecting, Connection } from './asker.ts'
import { loadPackage } from './package.ts'
import { answerTo, ServerConnection } from './server-connection.ts'
import type { Reply } from './replies.ts'

/**
 * Connects. Resolves when commands can be sent.
 * @throws Error of the library or of the system
 */
export async function connect(connecting: Connecting): Promise<Connection> {
  const { place } = connecting
  if (place.cluster) return connectCluster(connecting)
  if (!place.sentinels) return ServerConnection.open(place.server, connecting)
  const server = { ...place.server, ...(await findMaster(place.sentinels, place.server.host, connecting)) }
  const connection = await ServerConnection.open(server, connecting)
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

async function connectCluster({ place, timeout, signal }: Connecting): Promise<Connection> {
  const { createCluster, RESP_TYPES } = await loadPackage()
  const { ca, server } = place
  const { host, port, username, password, tls } = server
  // The timeout of the library ends with the sending of a command, and costs a timer for each.
  const commandOptions = { timeout: 0, typeMapping: { [RESP_TYPES.BLOB_STRING]: Buffer } }
  const socket = {
    connectTimeout: timeout,
    // The name of the server is checked, whatever the environment says of certificates.
    ...(tls && { tls: true as const, rejectUnauthorized: true, ...(ca !== undefined && { ca }) })
  }
  const options = {
    ...(username !== undefined && { username }),
    ...(password !== undefined && { password }),
    // What has waited would be sent after a request was decided otherwise.
    disableOfflineQueue: true,
    // The older protocol is known to every server, and one command shorter.
    RESP: 2 as const,
    maintNotifications: 'disabled' as const,
    disableClientInfo: true,
    commandOptions
  }
  const again = (retries: number): number => Math.min(50 * 2 ** retries, 500)
  const cluster = createCluster({
    rootNodes: [{ ...options, socket: { ...socket, reconnectStrategy: false, host, port } }],
    defaults: { ...options, socket: { ...socket, reconnectStrategy: again } },
    topologyRefreshOnReconnectionAttemptStrategy: 200,
    RESP: 2,
    commandOptions
  })
  // A server that is lost is found again by the library, or another one that took its place.
  cluster.on('error', () => {})
  let late: NodeJS.Timeout | undefined
  let ending: Disposable | undefined
  try {
    // The library does not limit the time of finding out which servers there are.
    const tooLate = new Promise<never>((_, reject) => {
      late = setTimeout(() => reject(new Error('TIMEOUT the cluster did not answer in time')), 2 * timeout)
      ending = addAbortListener(signal, () => reject(new Error('CLOSED the connection was closed')))
    })
    await Promise.race([cluster.connect(), tooLate])
  } catch (error) {
    cluster.destroy()
    throw error
  } finally {
    clearTimeout(late)
    ending?.[Symbol.dispose]()
  }
  return {
    send: (key, command, asker) => {
      const sent = cluster.sendCommand(key, false, [...command]) as unknown as Promise<Reply>
      sent.then(
        (reply) => asker.done(reply),
        (error: unknown) => asker.failed(error)
      )
    },
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
    connecting.signal.throwIfAborted()
    let connection: Connection | undefined
    try {
      connection = await ServerConnection.open(sentinel, { ...connecting, lost: () => {} })
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
    return await answerTo(connection, command)
  } finally {
    clearTimeout(late)
  }
}
