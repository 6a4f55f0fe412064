// The request log on this store: written by the writer with the settlements, read by a thread of its own.
import type { Worker } from 'node:worker_threads'
import { GatewayError } from '../errors.ts'
import { recordValues } from './batch.ts'
import type { ReaderQuery, ReaderReply } from './reader-thread.ts'
import type { RequestLog, RequestQuery, RequestRecord } from './requests.ts'
import { startThread } from './thread.ts'
import type { Writer } from './writer.ts'

/** The log. The reader thread starts with the first listing. */
export class Logbook implements RequestLog {
  readonly #writer: Writer
  readonly #file: string
  readonly #owes: (requestId: string) => boolean
  readonly #waiting = new Map<number, PromiseWithResolvers<ReaderReply>>()
  #reader: Worker | undefined
  #lastQuery = 0

  /** `owes`: whether a request has money under way, so that its record must not be dropped. */
  constructor(writer: Writer, file: string, owes: (requestId: string) => boolean) {
    this.#writer = writer
    this.#file = file
    this.#owes = owes
  }

  append(record: RequestRecord, json?: string, time?: number): void {
    if (this.#writer.full && !this.#owes(record.request_id)) {
      this.#writer.health.droppedRecords++
      return
    }
    const { draft } = this.#writer
    const values = recordValues(record, json, time)
    draft.records.push(...values)
    draft.count(values[5].length)
    this.#writer.wakeSoon()
  }

  /** Shows everything appended before the call, unless the disk fails. */
  async list(query: RequestQuery): Promise<{ data: RequestRecord[]; next: string | null }> {
    const question = check(query)
    if (this.#writer.health.healthy) await this.#writer.flushed()
    const { records, next } = await this.#ask(question)
    return { data: records.map((record) => JSON.parse(record) as RequestRecord), next: next === undefined ? null : String(next) }
  }

  async close(): Promise<void> {
    await this.#reader?.terminate()
  }

  async #ask(question: Omit<ReaderQuery, 'id'>): Promise<Extract<ReaderReply, { records: string[] }>> {
    this.#reader ??= this.#start()
    const id = ++this.#lastQuery
    const waiting = Promise.withResolvers<ReaderReply>()
    this.#waiting.set(id, waiting)
    this.#reader.postMessage({ id, ...question } satisfies ReaderQuery)
    const reply = await waiting.promise
    if ('error' in reply) throw new Error(`${this.#file} could not be read: ${reply.error}`)
    return reply
  }

  #start(): Worker {
    const reader = startThread('reader-thread', this.#file)
    reader.unref()
    reader.on('message', (reply: ReaderReply) => {
      this.#waiting.get(reply.id)?.resolve(reply)
      this.#waiting.delete(reply.id)
    })
    let reason = 'the reader thread ended'
    reader.on('error', (error) => void (reason = String(error)))
    reader.on('exit', () => {
      this.#reader = undefined
      for (const waiting of this.#waiting.values()) waiting.reject(new Error(reason))
      this.#waiting.clear()
    })
    return reader
  }
}

function check({ request_id, tenant, key, model, since, limit, cursor }: RequestQuery): Omit<ReaderQuery, 'id'> {
  const time = since === undefined ? undefined : Date.parse(since)
  if (Number.isNaN(time)) throw new GatewayError('invalid_field', `since is ${since}: it must be a time such as 2026-11-21T00:00:00Z.`, { param: 'since' })
  if (cursor !== undefined && !/^\d{1,15}$/.test(cursor)) {
    throw new GatewayError('invalid_field', `cursor is ${cursor}: it must be the next of an earlier page.`, { param: 'cursor' })
  }
  if (!Number.isInteger(limit) || limit < 1 || limit > 1000) {
    throw new GatewayError('invalid_field', `limit is ${limit}: it must be a whole number from 1 to 1000.`, { param: 'limit' })
  }
  return { request_id, tenant, key, model, since: time, limit, before: cursor === undefined ? undefined : Number(cursor) }
}
