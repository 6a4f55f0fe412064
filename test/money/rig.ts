// What the tests of money have in common: a configuration, a client that can do without a parser of streams, and the
// books as SQL sees them.
import { Agent, request as send } from 'node:http'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { shadow } from '../core/store/embedded/shadow.ts'
import { DatabaseSync } from 'node:sqlite'
import type { Test } from 'tap'
import type { Dollars } from '../kit/oracle.ts'
import type { Plan } from './planned.ts'

/** Long versions, for the hand: `SLUICE_LONG=1 node test/money/<name>.test.ts`. */
export const long = process.env['SLUICE_LONG'] !== undefined

/** Models with prices of every kind; amounts do not come out even. */
export const prices: Readonly<Record<string, Dollars>> = {
  plain: { input: '1.25', output: '10' },
  cached: { input: '0.15', cached_input: '0.075', cache_write: '0.1875', output: '0.6' },
  heard: {
    input: '2.5',
    cached_input: '1.25',
    output: '10.01',
    audio_input: '40',
    audio_output: '80.5',
    image_input: '5.003'
  },
  odd: { input: '0.0375', cached_input: '0.009375', output: '0.150000001' },
  call: { input: '0.05', output: '0.4', request: '0.001000003' }
}

/** Sections of a gateway.yaml beside what {@link configOf} makes. */
export type More = Readonly<Record<string, unknown>>

export const secretOf = (name: string): string => `sk-money-${name}-000000000000`

/** A key entry of the file; its secret is {@link secretOf} its name. */
export function key(name: string, more: More = {}): More {
  return { name, key: secretOf(name), tenant: 'acme', ...more }
}

/** All plugins of a usual chain. No channel is ever taken out: what is tested here is money. */
export const patientChain: readonly More[] = [
  { auth: {} },
  { quota: {} },
  { ratelimit: {} },
  { route: { repeats: 0, eject_after: 1_000_000 } },
  { 'protocol-translate': {} },
  { 'usage-meter': {} },
  { log: { sink: 'none' } }
]

/** A whole gateway.yaml with channels in the order of their priority. */
export function configOf(
  upstreams: readonly { name: string; url: string }[],
  { quota = {}, ratelimit = {}, ...more }: More & { quota?: object; ratelimit?: object } = {}
): More {
  const models = Object.fromEntries(Object.keys(prices).map((name) => [name, name]))
  const channels = upstreams.map(({ name, url }, priority) => [
    name,
    { protocol: 'openai', base_url: url, private: true, models, priority }
  ])
  return {
    listen: { host: '127.0.0.1', port: 0 },
    admin: { host: '127.0.0.1', port: 0 },
    channels: Object.fromEntries(channels),
    models: Object.fromEntries(Object.entries(prices).map(([name, price]) => [name, { price }])),
    tenants: { acme: {} },
    keys: [key('test')],
    // No channel is ever taken out: what is tested here is money.
    chain: [
      { auth: {} },
      { quota },
      { ratelimit },
      { route: { repeats: 0, eject_after: 1_000_000, retry_per_second: 100_000 } },
      { 'protocol-translate': {} },
      { 'usage-meter': {} },
      { log: { sink: 'none' } }
    ],
    ...more
  }
}

/** A folder outside the test's own, for a store that outlives gateways. */
export function folder(t: Test): string {
  const path = mkdtempSync(join(tmpdir(), 'sluice-money-'))
  t.teardown(() => rmSync(path, { recursive: true, force: true }))
  return path
}

/** What a client saw of one request. */
export interface Seen {
  plan: Plan
  model: string
  /** 0 when not even a head came. */
  status: number
  headers: Record<string, string>
  text: string
  /** The end marker, or a whole JSON body, was there. */
  ended: boolean
  id: string | undefined
  code: string | undefined
}

/** How to ask. */
export interface Asking {
  key?: string
  model?: string
  stream?: boolean
  /** Further fields of the body. */
  body?: More
  /** Leave after so many bytes of the answer's body, or after the head (0). */
  leaveAt?: number
  /** Leave when the answer holds this. */
  leaveOn?: string
  /** Leave when this resolves. */
  leave?: Promise<unknown>
  headers?: Record<string, string>
  /** Told of the answer's body as far as it has come, with each piece. */
  onText?: (text: string) => void
}

/** The exact body of a request, as {@link ask} sends it. */
export function bodyOf(plan: Plan, { model = 'plain', stream = false, body = {} }: Asking): Buffer {
  return Buffer.from(
    JSON.stringify({
      model,
      messages: [{ role: 'user', content: JSON.stringify(plan) }],
      ...(stream && { stream }),
      ...body
    })
  )
}

const agent = new Agent({ keepAlive: true, maxSockets: Infinity, timeout: 60_000 })

/** One request; never rejects: what did not come is missing. */
export function ask(url: string, plan: Plan, asking: Asking = {}): Promise<Seen> {
  const { key: name = 'test', model = 'plain', leaveAt = Infinity, leaveOn, leave, headers = {}, onText } = asking
  const seen: Seen = { plan, model, status: 0, headers: {}, text: '', ended: false, id: undefined, code: undefined }
  return new Promise((resolve) => {
    const bytes = bodyOf(plan, asking)
    const all = {
      authorization: `Bearer ${secretOf(name)}`,
      'content-type': 'application/json',
      'content-length': bytes.length,
      ...headers
    }
    const outgoing = send(`${url}/v1/chat/completions`, { method: 'POST', agent, headers: all }, (response) => {
      seen.status = response.statusCode!
      seen.headers = response.headers as Record<string, string>
      seen.id = seen.headers['x-request-id']
      if (leaveAt === 0) outgoing.destroy()
      response.on('data', (chunk: Buffer) => {
        seen.text += chunk.toString('latin1')
        onText?.(seen.text)
        if (seen.text.length >= leaveAt || (leaveOn !== undefined && seen.text.includes(leaveOn))) outgoing.destroy()
      })
      response.on('end', () => {
        const events = String(seen.headers['content-type']).startsWith('text/event-stream')
        seen.ended = response.complete && seen.status === 200 && (!events || seen.text.endsWith('data: [DONE]\n\n'))
        seen.code = /"code":"(\w+)"/.exec(seen.text)?.[1]
        resolve(seen)
      })
      response.on('error', () => resolve(seen))
      response.on('close', () => resolve(seen))
    })
    outgoing.on('error', () => resolve(seen))
    outgoing.on('close', () => resolve(seen))
    void leave?.then(() => outgoing.destroy())
    outgoing.end(bytes)
  })
}

/** A row of the journal. */
export interface Entry {
  kind: string
  request_id: string
  class: string
  amount: bigint
  reserved: bigint
  source: string | null
  channel: string | null
  scopes: string
  usage: Record<string, number> | undefined
}

/** Rows of a store's file, read beside the gateway that may be running on it. */
export function rows(file: string, sql: string): Record<string, any>[] {
  const database = new DatabaseSync(file, { readOnly: true })
  try {
    shadow(database, file, sql)
    const statement = database.prepare(sql)
    statement.setReadBigInts(true)
    return statement.all()
  } finally {
    database.close()
  }
}

/** The whole journal, oldest first. */
export function journal(file: string): Entry[] {
  const parsed = rows(file, 'SELECT * FROM journal ORDER BY seq')
  return parsed.map(
    (row) =>
      ({
        ...row,
        usage: row['usage_json'] === null ? undefined : JSON.parse(row['usage_json'] as string)
      }) as unknown as Entry
  )
}

/** How each request ended, by its id; those that ended twice are named. */
export function endings(entries: readonly Entry[]): { ends: Map<string, Entry>; twice: string[] } {
  const ends = new Map<string, Entry>()
  const twice: string[] = []
  for (const entry of entries) {
    if (entry.class !== 'terminal') continue
    if (ends.has(entry.request_id)) twice.push(entry.request_id)
    ends.set(entry.request_id, entry)
  }
  return { ends, twice }
}

/** A repeatable source of chance (a linear congruence, high bits only). */
export function chance(seed: number): (below: number) => number {
  let state = seed >>> 0
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

/** Runs work for each of a count, so many at one time. */
export async function inParallel<T>(count: number, width: number, work: (index: number) => Promise<T>): Promise<T[]> {
  const results: T[] = []
  let next = 0
  const lane = async (): Promise<void> => {
    for (let index = next++; index < count; index = next++) results[index] = await work(index)
  }
  await Promise.all(Array.from({ length: Math.min(width, count) }, lane))
  return results
}
