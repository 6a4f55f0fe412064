// One statement on its way through a connection of `pg`: written in one piece, and read without what nobody asks for.
import type { Connection, FieldDef, Submittable } from 'pg'

/** What a statement gave. */
export interface Result<Row> {
  readonly rows: Row[]
  /** The rows that it returned or changed. */
  readonly count: number
}

/** Reads the text of a value, by the id of its type. */
export type Reader = (type: number) => (text: string) => unknown

/** Behind the values of a statement: all of the answer as text; describe, execute and sync. */
const behind = Buffer.from('\0\0D\0\0\0\x06P\0E\0\0\0\x09\0\0\0\0\0S\0\0\0\x04', 'latin1')
/** What goes before a statement that waits for locks for so many milliseconds at most, by that number. */
const before = new Map<number, Buffer>()

/** A statement as the package takes it, which calls its methods with what the server answers. */
export class Statement<Row> implements Submittable {
  readonly #text: string
  readonly #values: readonly unknown[] | undefined
  readonly #reader: Reader
  readonly #lockTimeout: number | undefined
  readonly #answer = Promise.withResolvers<Result<Row>>()
  #columns: { readonly name: string; readonly read: (text: string) => unknown }[] = []
  #rows: Row[] = []
  #command = ''
  /** Whether what comes is of what goes before the statement. */
  #ahead = false
  #failure: unknown

  /**
   * `values`: for `$1` and so on. Without any there may be several statements, of which the last gives the result.
   * `lockTimeout`: for how many milliseconds the server waits for locks. It is set for this statement alone, in the
   * same trip, as a pooler hands the connection on. Default: as its transaction, or the server, says.
   */
  constructor(text: string, values: readonly unknown[] | undefined, reader: Reader, lockTimeout?: number) {
    this.#text = text
    this.#values = values?.length === 0 ? undefined : values
    this.#reader = reader
    this.#lockTimeout = lockTimeout
  }

  /** Rejects with the error of the server, or with why the connection ended. */
  get answer(): Promise<Result<Row>> {
    return this.#answer.promise
  }

  submit(connection: Connection): void {
    const timeout = this.#lockTimeout
    if (this.#values === undefined)
      connection.query(timeout === undefined ? this.#text : `set local lock_timeout = ${timeout}; ${this.#text}`)
    // Of a connection that has ended the package tells by itself.
    else if (connection.stream.writable) {
      this.#ahead = timeout !== undefined
      const bytes = bytesOf(this.#text, this.#values)
      connection.stream.write(timeout === undefined ? bytes : Buffer.concat([beforeOf(timeout), bytes]))
    }
  }

  handleRowDescription({ fields }: { fields: FieldDef[] }): void {
    this.#columns = fields.map(({ name, dataTypeID }) => ({ name, read: this.#reader(dataTypeID) }))
    this.#rows = []
  }

  handleDataRow({ fields }: { fields: (string | null)[] }): void {
    if (this.#failure !== undefined || this.#ahead) return
    try {
      const row: Record<string, unknown> = {}
      for (const [i, { name, read }] of this.#columns.entries()) {
        const text = fields[i]!
        row[name] = text === null ? null : read(text)
      }
      this.#rows.push(row as Row)
    } catch (error) {
      // Thrown here, it would be the fault of the connection.
      this.#failure = error
    }
  }

  handleCommandComplete({ text }: { text: string }): void {
    this.#command = text
    this.#ahead = false
  }

  handleReadyForQuery(): void {
    // INSERT 0 5, SELECT 5, BEGIN
    const count = Number(this.#command.slice(this.#command.lastIndexOf(' ') + 1)) || 0
    if (this.#failure === undefined) this.#answer.resolve({ rows: this.#rows, count })
    else this.#answer.reject(this.#failure as Error)
  }

  handleError(error: Error): void {
    this.#answer.reject(error)
  }

  handleEmptyQuery(): void {}

  handlePortalSuspended(): void {}

  handleCopyInResponse(connection: Connection): void {
    ;(connection as Connection & { sendCopyFail(reason: string): void }).sendCopyFail('nothing is copied here')
  }

  handleCopyData(): void {}
}

/** A statement without an end, so that the next one is in its transaction. */
function beforeOf(timeout: number): Buffer {
  const known = before.get(timeout)
  if (known) return known
  const all = bytesOf(`select set_config('lock_timeout', '${timeout}', true)`, [])
  // Neither is it described, nor is it the last.
  const [describe, sync] = [7, 5]
  const end = all.length - behind.length + 2
  const made = Buffer.concat([all.subarray(0, end), all.subarray(end + describe, all.length - sync)])
  before.set(timeout, made)
  return made
}

/** All messages of a statement, which the server does not prepare for later ones. */
function bytesOf(text: string, values: readonly unknown[]): Buffer {
  const sent = values.map(sentOf)
  const formats = sent.some((value) => typeof value === 'object' && value !== null) ? sent.length : 0
  const lengths = sent.map((value) =>
    value === null ? 0 : typeof value === 'string' ? Buffer.byteLength(value) : value.length
  )
  const parse = 8 + Buffer.byteLength(text)
  const bind = 12 + 2 * formats + 4 * sent.length + lengths.reduce((sum, length) => sum + length, 0)
  const bytes = Buffer.allocUnsafe(parse + bind + behind.length)
  let at = bytes.writeInt32BE(parse, bytes.writeUInt8(0x50))
  at = bytes.writeUInt8(0, at)
  at += bytes.write(text, at)
  // The end of the text, and no types, which the server finds by itself.
  at = bytes.writeUInt16BE(0, bytes.writeUInt8(0, at))
  at = bytes.writeInt32BE(bind, bytes.writeUInt8(0x42, at))
  // No names of portal and statement.
  at = bytes.writeUInt16BE(formats, bytes.writeUInt16BE(0, at))
  for (let i = 0; i < formats; i++)
    at = bytes.writeUInt16BE(typeof sent[i] === 'object' && sent[i] !== null ? 1 : 0, at)
  at = bytes.writeUInt16BE(sent.length, at)
  for (const [i, value] of sent.entries()) {
    at = bytes.writeInt32BE(value === null ? -1 : lengths[i]!, at)
    if (typeof value === 'string') at += bytes.write(value, at)
    else if (value !== null) at += value.copy(bytes, at)
  }
  behind.copy(bytes, at)
  return bytes
}

/** A value as it is sent: text, bytes as they are, or null. */
function sentOf(value: unknown): string | Buffer | null {
  if (value === null || value === undefined) return null
  if (typeof value === 'string' || Buffer.isBuffer(value)) return value
  return Array.isArray(value) ? arrayOf(value) : String(value as number | bigint | boolean)
}

function arrayOf(values: readonly unknown[]): string {
  let text = '{'
  for (const value of values) {
    if (text !== '{') text += ','
    if (value === null || value === undefined) text += 'NULL'
    else if (typeof value === 'string') text += `"${value.replace(/[\\"]/g, '\\$&')}"`
    else text += String(value as number | bigint | boolean)
  }
  return `${text}}`
}
