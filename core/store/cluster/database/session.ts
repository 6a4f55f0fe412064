// One connection to PostgreSQL, from its beginning to its end. It is never connected again: another one replaces it.
import type { Client } from 'pg'
import type { Address } from './address.ts'
import { DatabaseFault } from './fault.ts'
import type { Lineage } from './lineage.ts'
import { loadPackage } from './package.ts'
import { Statement } from './statement.ts'
import type { Reader, Result } from './statement.ts'

/** The types that are not read as `pg` does: bigint and arrays of it, which numbers cannot hold. */
const [int8, int8s] = [20, 1016]

/** What a server says of itself. */
interface ParameterStatus {
  readonly parameterName: string
  readonly parameterValue: string
}

/** An open connection. One statement runs at a time; who has it waits for each. */
export class Session {
  readonly #client: Client
  readonly #reader: Reader
  readonly #address: Address
  /** Why it ended. */
  #fault: DatabaseFault | undefined
  readonly #ended = Promise.withResolvers<DatabaseFault>()
  /** Whether the server is a standby, as it says itself. */
  #standby: boolean | undefined

  private constructor(client: Client, address: Address, reader: Reader) {
    this.#client = client
    this.#reader = reader
    this.#address = address
    client.connection.on('parameterStatus', ({ parameterName: name, parameterValue: value }: ParameterStatus) => {
      if (name === 'in_hot_standby') this.#standby = value === 'on'
    })
    // Without a listener an error of an idle connection would end the process.
    client.on('error', (error) => this.#end(DatabaseFault.of(error)))
    client.on('end', () =>
      this.#end(new DatabaseFault('lost', `the connection to PostgreSQL ended (${address.shown})`))
    )
  }

  /**
   * Connects. `name`: what `pg_stat_activity` shows as the name of the application.
   * `lineage`: what was seen of the server before.
   * @throws DatabaseFault `unreachable`, `readonly` where the server is a standby, or `replaced`
   */
  static async open(address: Address, name: string, lineage?: Lineage): Promise<Session> {
    const { Client, types } = await loadPackage()
    const { host, port, user, password = '', database, tls, timeout } = address
    const client = new Client({
      host,
      port,
      user,
      // A function, so that nothing that prints the client prints the password, and no file of passwords is looked for.
      password: () => password,
      database,
      ssl: tls,
      application_name: name.slice(0, 63),
      connectionTimeoutMillis: timeout,
      keepAlive: true
    })
    const reader: Reader = (type) =>
      type === int8 ? BigInt : type === int8s ? bigints : (types.getTypeParser(type, 'text') as ReturnType<Reader>)
    const session = new Session(client, address, reader)
    try {
      await client.connect()
    } catch (error) {
      client.connection.stream.destroy()
      throw new DatabaseFault(
        'unreachable',
        `PostgreSQL cannot be reached (${address.shown}): ${(error as Error).message}`
      )
    }
    try {
      await session.#checkPrimary()
      await lineage?.check((text) => session.query(text, undefined, timeout), address.shown)
      return session
    } catch (error) {
      session.destroy(DatabaseFault.of(error))
      throw error
    }
  }

  /**
   * After a fail-over an address may lead to a standby for a while, whose reads are of yesterday. A server tells at
   * once whether it is one; a pooler may not pass that on, and is asked.
   */
  async #checkPrimary(): Promise<void> {
    const { timeout, shown } = this.#address
    this.#standby ??= (
      await this.query<{ standby: boolean }>('select pg_is_in_recovery() as standby', undefined, timeout)
    ).rows[0]!.standby
    if (this.#standby) throw new DatabaseFault('readonly', `PostgreSQL is a standby there (${shown})`)
  }

  /** Why it ended; undefined while it is open. */
  get fault(): DatabaseFault | undefined {
    return this.#fault
  }

  /** Resolves when the connection has ended, for whatever reason. */
  get ended(): Promise<DatabaseFault> {
    return this.#ended.promise
  }

  /**
   * Runs a statement. Without values it may be several statements. `deadline` in milliseconds: the connection is
   * destroyed when it passes, as nobody knows then what an answer would belong to. `lockTimeout`: as of a
   * {@link Statement}.
   * @throws DatabaseFault
   */
  async query<Row>(
    text: string,
    values: readonly unknown[] | undefined,
    deadline: number,
    lockTimeout?: number
  ): Promise<Result<Row>> {
    if (this.#fault) throw new DatabaseFault('lost', this.#fault.message)
    const timer = setTimeout(
      () =>
        this.destroy(
          new DatabaseFault('deadline', `PostgreSQL did not answer within ${deadline} ms (${this.#address.shown})`)
        ),
      deadline
    )
    try {
      return await this.#client.query(new Statement<Row>(text, values, this.#reader, lockTimeout)).answer
    } catch (error) {
      // Of a connection that we ended ourselves the reason is ours, and not that it ended.
      const { fault: ours } = this
      if (ours) throw new DatabaseFault(ours.code, ours.message, { unknown: true })
      const fault = DatabaseFault.of(error)
      // What takes no changes may take none for ever, while its address has long led to another server.
      if (fault.unknown || fault.code === 'readonly') this.destroy(fault)
      throw fault
    } finally {
      clearTimeout(timer)
    }
  }

  /** Calls `tell` for each notification of the channels that this connection listens to. */
  onNotification(tell: (channel: string, payload: string) => void): void {
    this.#client.on('notification', ({ channel, payload = '' }) => tell(channel, payload))
  }

  /** Ends the connection at once, in the middle of a statement too. */
  destroy(fault: DatabaseFault): void {
    this.#end(fault)
    this.#client.connection.stream.destroy()
  }

  /** Ends the connection politely, and at once when the server does not answer. Nothing may be under way. */
  async close(): Promise<void> {
    if (this.#fault) return
    this.#end(new DatabaseFault('closed', 'the connection to PostgreSQL was closed'))
    const timer = setTimeout(() => this.#client.connection.stream.destroy(), 1000)
    await this.#client.end().catch(() => {})
    clearTimeout(timer)
  }

  #end(fault: DatabaseFault): void {
    if (this.#fault) return
    this.#fault = fault
    this.#ended.resolve(fault)
  }
}

function bigints(text: string): (bigint | null)[] {
  return text === '{}'
    ? []
    : text
        .slice(1, -1)
        .split(',')
        .map((one) => (one === 'NULL' ? null : BigInt(one)))
}
