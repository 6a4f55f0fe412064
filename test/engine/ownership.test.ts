// What is another's, has expired or was deleted is what never was: in bytes, and in time.
import { Agent, request } from 'node:http'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import t from 'tap'
import { gateway, testKey } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { eventually } from '../kit/probe.ts'

const long = process.env['SLUICE_LONG'] === '1'
/** Requests of each kind, and those before that do not count. */
const rounds = long ? 1500 : 2
const warm = long ? 50 : 0
t.setTimeout(600_000)

const foreign = 'sk-test-foreign-0000000000000'
const price = { input: 1, output: 2, image: 0.01, second: 0.01 }
const path = '/v1/responses'

const agent = new Agent({ keepAlive: true, maxSockets: 1 })

interface Timed {
  status: number
  text: string
  ms: number
}

/** On one connection, with nothing in the way of a clock. */
function ask(url: string, key: string, method: string, target: string, body?: object): Promise<Timed> {
  return new Promise((resolve, reject) => {
    const bytes = body && Buffer.from(JSON.stringify(body))
    const began = performance.now()
    const outgoing = request(
      `${url}${target}`,
      {
        method,
        agent,
        headers: {
          authorization: `Bearer ${key}`,
          ...(bytes && { 'content-type': 'application/json', 'content-length': bytes.length })
        }
      },
      (reply) => {
        let text = ''
        reply
          .on('data', (piece: Buffer) => (text += piece.toString()))
          .on('end', () => resolve({ status: reply.statusCode!, text, ms: performance.now() - began }))
      }
    )
    outgoing.on('error', reject)
    outgoing.end(bytes)
  })
}

const median = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[values.length >> 1]!

t.test("nobody learns from an answer, or from how long it takes, whether an id is another's", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const database = join(folder, 'sluice.db')
  const first = await gateway(t, {
    channels: {
      native: { protocol: 'simulator', endpoints: ['responses', 'videos', 'images'], models: { native: 'demo' } },
      chat: { protocol: 'simulator', endpoints: ['chat'], models: { own: 'demo' } }
    },
    models: { native: { price }, own: { price, state: 'gateway' } },
    tenants: { acme: {}, other: {} },
    keys: [
      { name: 'test', key: testKey, tenant: 'acme' },
      { name: 'foreign', key: foreign, tenant: 'other' }
    ],
    state: { key: 'a secret of the operator that nobody else knows' },
    store: { sqlite: database }
  })
  const make = async (local: LocalGateway, key: string, target: string, body: object): Promise<string> => {
    const reply = await ask(local.url, key, 'POST', target, body)
    t.ok(reply.status === 200 || reply.status === 202, `${target}: ${reply.status} ${reply.text.slice(0, 200)}`)
    return JSON.parse(reply.text).id
  }
  /** By what keeps it. */
  const kinds: Record<string, { make: [string, object]; at: string; verbs: [string, string][] }> = {
    'kept by an upstream': {
      make: [path, { model: 'native', input: 'Hi' }],
      at: path,
      verbs: [
        ['GET', ''],
        ['POST', '/cancel'],
        ['DELETE', ''],
        ['GET', '/input_items'],
        ['GET', '?stream=true']
      ]
    },
    'kept by the gateway': {
      make: [path, { model: 'own', input: 'Hi' }],
      at: path,
      verbs: [
        ['GET', ''],
        ['POST', '/cancel'],
        ['DELETE', ''],
        ['GET', '/input_items']
      ]
    },
    'made by the gateway': {
      make: [path, { model: 'own', input: 'Hi', background: true }],
      at: path,
      verbs: [
        ['GET', ''],
        ['POST', '/cancel'],
        ['DELETE', '']
      ]
    },
    'a video': {
      make: ['/v1/video/generations', { model: 'native', prompt: 'A boat', seconds: 1 }],
      at: '/v1/video/generations',
      verbs: [
        ['GET', ''],
        ['POST', '/cancel'],
        ['DELETE', ''],
        ['GET', '/content']
      ]
    },
    'a picture': {
      make: ['/v1/images/generations/async', { model: 'native', prompt: 'A boat', size: '64x64' }],
      at: '/v1/images/generations/async',
      verbs: [
        ['GET', ''],
        ['POST', '/cancel'],
        ['DELETE', '']
      ]
    }
  }
  const ids: Record<string, Record<string, string>> = {}
  for (const [
    kind,
    {
      make: [target, body],
      at
    }
  ] of Object.entries(kinds)) {
    const deleted = await make(first, foreign, target, body)
    ids[kind] = {
      another: await make(first, testKey, target, body),
      expired: await make(first, foreign, target, body),
      deleted
    }
    await eventually(
      async () =>
        !/"(queued|in_progress)"/.test((await ask(first.url, foreign, 'GET', `${at}/${ids[kind]!['expired']}`)).text),
      10_000
    )
    t.equal((await ask(first.url, foreign, 'DELETE', `${at}/${deleted}`)).status, 200, kind)
  }
  await first.gateway.close()
  const file = new DatabaseSync(database)
  file.exec(
    "UPDATE route SET expires = 1 WHERE tenant = 'other'; UPDATE work SET expires = 1, json = json_set(json, '$.expires', 1) WHERE tenant = 'other'"
  )
  file.close()
  const local = await gateway(t, readFileSync(first.file, 'utf8'))
  for (const [kind, { at, verbs }] of Object.entries(kinds)) {
    const { another, expired, deleted } = ids[kind]!
    const shape = (id: string): string =>
      id.replace(/[0-9a-zA-Z]/g, (letter, at: number) => (at < 5 ? letter : letter === 'a' ? 'b' : 'a'))
    const asked = { unknown: shape(another!), another: another!, expired: expired!, deleted: deleted! }
    for (const [method, rest] of [
      ...verbs,
      ...(at === path
        ? [
            ['go on', ''],
            ['refer', '']
          ]
        : [])
    ] as [string, string][]) {
      const times: Record<string, number[]> = { unknown: [], another: [], expired: [], deleted: [] }
      const answers = new Set<string>()
      const go = (id: string): Promise<Timed> => {
        const model = kind === 'kept by an upstream' ? 'native' : 'own'
        if (method === 'go on')
          return ask(local.url, foreign, 'POST', path, { model, input: 'x', previous_response_id: id })
        if (method === 'refer')
          return ask(local.url, foreign, 'POST', path, {
            model,
            input: [{ type: 'item_reference', id: id.replace('resp_', 'msg_') }]
          })
        return ask(local.url, foreign, method, `${at}/${id}${rest}`)
      }
      for (let round = 0; round < rounds + warm; round++) {
        // In an order that changes: what the one before leaves behind is everybody's.
        const order = Object.entries(asked)
        for (let turn = 0; turn < order.length; turn++) {
          const [name, id] = order[(turn + round) % order.length]!
          const { status, text, ms } = await go(id)
          answers.add(`${status} ${text}`)
          if (round >= warm) times[name]!.push(ms)
        }
      }
      t.equal(answers.size, 1, `${kind}, ${method} ${rest}: ${[...answers].join(' | ').slice(0, 300)}`)
      t.match([...answers][0], /^404 /)
      const base = median(times['unknown']!)
      const figures = Object.entries(times).map(([name, list]) => [name, median(list)] as const)
      if (long) {
        t.comment(
          `${kind}, ${method} ${rest}: ${figures.map(([name, ms]) => `${name} ${(ms * 1000).toFixed(0)} µs`).join(', ')}`
        )
        for (const [name, ms] of figures)
          t.ok(
            Math.abs(ms / base - 1) < 0.15,
            `${kind}, ${method} ${rest}, ${name}: ${(ms / base).toFixed(3)} times as long`
          )
      }
    }
  }
})
