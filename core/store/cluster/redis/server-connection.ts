// A connection to one Redis server: what one turn of the loop asks is written at once, and answers come in order.
import { addAbortListener } from 'node:events'
import { connect as connectPlain, isIP } from 'node:net'
import type { Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { Server } from './address.ts'
import type { Asker, Connecting, Connection } from './asker.ts'
import { RedisError, Replies } from './replies.ts'
import type { Reply } from './replies.ts'

/** Answers are short, and copied out of it. */
const readAtOnce = 16 * 1024
/** How long the other side may be silent before the system looks whether it is there, in milliseconds. */
const aliveAfter = 5000

/** An open connection. */
export class ServerConnection implements Connection {
  readonly #socket: Socket
  readonly #lost: (error: unknown) => void
  /** Those who wait for their answers, in the order of their questions. */
  readonly #askers: Asker[] = []
  /** What this turn of the loop has asked. */
  #unsent = ''
  /** Why it has ended. */
  #fault: Error | undefined
  readonly #ending: Disposable

  private constructor(server: Server, { place: { ca }, lost, signal }: Connecting, connected: () => void) {
    const { host, port, tls } = server
    const replies = new Replies((reply) => this.#answer(reply))
    const onread = {
      buffer: Buffer.alloc(readAtOnce),
      callback: (size: number, bytes: Uint8Array): boolean => {
        try {
          replies.take((bytes as Buffer).subarray(0, size))
        } catch (error) {
          this.#end(error as Error)
        }
        return true
      }
    }
    const options = { host, port, noDelay: true, keepAlive: true, keepAliveInitialDelay: aliveAfter, onread }
    // The name of the server is checked, whatever the environment says of certificates.
    const secure = { rejectUnauthorized: true, ...(isIP(host) === 0 && { servername: host }), ...(ca && { ca }) }
    this.#lost = lost
    this.#ending = addAbortListener(signal, () => this.#end(new Error('CLOSED the connection was closed')))
    this.#socket = tls ? connectTls({ ...options, ...secure }, connected) : connectPlain(options, connected)
    this.#socket.on('error', (error) => this.#end(error))
    this.#socket.on('close', () => this.#end(new Error('CLOSED the server has ended the connection')))
  }

  /**
   * Connects, and says who asks. Rejects with an error of the system or of the server, or with `TIMEOUT` where one of
   * both takes longer than the time to connect.
   */
  static open(server: Server, connecting: Connecting): Promise<ServerConnection> {
    return new Promise((resolve, reject) => {
      let opened = false
      const fail = (error: unknown): void => {
        clearTimeout(late)
        connection.destroy()
        reject(error as Error)
      }
      const late = setTimeout(() => fail(new Error('TIMEOUT the server did not answer in time')), connecting.timeout)
      const lost = (error: unknown): void => (opened ? connecting.lost(error) : fail(error))
      const connection = new ServerConnection(server, { ...connecting, lost }, () => {
        late.refresh()
        Promise.all(greetings(server).map((command) => answerTo(connection, command))).then(() => {
          clearTimeout(late)
          opened = true
          resolve(connection)
        }, fail)
      })
    })
  }

  send(_key: string, command: readonly string[], asker: Asker): void {
    const fault = this.#fault
    if (fault) return queueMicrotask(() => asker.failed(fault))
    this.#askers.push(asker)
    if (this.#unsent === '') setImmediate(this.#write)
    this.#unsent += `*${command.length}\r\n`
    for (const part of command) this.#unsent += `$${Buffer.byteLength(part)}\r\n${part}\r\n`
  }

  destroy(): void {
    if (this.#fault) return
    this.#fault = new Error('CLOSED the connection was closed')
    this.#finish(this.#fault)
  }

  readonly #write = (): void => {
    const text = this.#unsent
    this.#unsent = ''
    if (!this.#fault) this.#socket.write(text)
  }

  #answer(reply: Reply | RedisError): void {
    const asker = this.#askers.shift()
    if (reply instanceof RedisError) asker?.failed(reply)
    else asker?.done(reply)
  }

  #end(error: Error): void {
    if (this.#fault) return
    this.#fault = error
    this.#lost(error)
    this.#finish(error)
  }

  #finish(error: Error): void {
    this.#ending[Symbol.dispose]()
    this.#socket.destroy()
    for (const asker of this.#askers.splice(0)) asker.failed(error)
  }
}

/** What a server is told first. A user may need no password, and is named all the same. */
function greetings({ username, password, database }: Server): string[][] {
  const user = username === undefined ? [] : [username]
  return [
    ...(user.length === 0 && password === undefined ? [] : [['AUTH', ...user, password ?? '']]),
    ...(database === 0 ? [] : [['SELECT', String(database)]])
  ]
}

/** Asks, where a promise does no harm. */
export function answerTo(connection: Connection, command: readonly string[]): Promise<Reply> {
  return new Promise((done, failed) => connection.send('', command, { done, failed }))
}
