// A gateway that is killed at every named point of an exchange, and of the recovery after it: in the books once, with
// what can be known.
import { cpSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { verify } from '../../core/store/embedded/care/verify/verify.ts'
import { recordIn } from '../../core/store/embedded/rows/record-text.ts'
import type { RecordRow } from '../../core/store/embedded/rows/record-text.ts'
import { Disk, noDisk } from '../chaos/disk.ts'
import { formsFor, storeOf } from '../core/store/embedded/forms.ts'
import type { Form } from '../core/store/embedded/forms.ts'
import { formOf } from '../kit/form.ts'
import { nanoCost } from '../kit/oracle.ts'
import { eventually } from '../kit/probe.ts'
import { stall, Upstream } from '../kit/upstream.ts'
import { quiet, serving } from './audit.ts'
import { PlannedUpstream } from './planned.ts'
import type { Plan } from './planned.ts'
import { launch } from './process.ts'
import type { Running } from './process.ts'
import { ask, bodyOf, chance, configOf, folder, journal, long, prices, rows, secretOf } from './rig.ts'
import type { Asking, Entry, More } from './rig.ts'

t.setTimeout(long ? 1_800_000 : 600_000)

/** Kills at each point. */
const times = long ? 5 : 1
const units = { input: 50, output: 150 }

/** Where to kill, and what is in the books after the next start. */
interface Point {
  name: string
  plan?: Partial<Plan>
  asking?: Asking
  /** The disk stands still from then on. */
  disk?: 'stands still before' | 'stands still after the first byte'
  /** The point is reached. Default: the end is in the journal. */
  reached?: (at: Place) => boolean | Promise<boolean>
  /** The one entry; none when the ledger does not know of it. */
  entry?: (bytes: number) => object
}

/** What can be seen of a gateway that is about to be killed. */
interface Place {
  running: Running
  upstream: PlannedUpstream
  file: string
  plan: Plan
  /** What the client has of the answer. */
  text: string
}

const stream = { stream: true }
const held =
  (where: string) =>
  ({ file }: Place) =>
    rows(file, `SELECT id FROM reservation WHERE ${where}`).length === 1
const charge = (output: number) => (bytes: number) => ({
  kind: 'settle',
  source: 'recovered',
  usage: { input: Math.ceil(bytes / 3), output }
})
/** The money of the key as the gateway knows it, whatever the disk has. */
async function money({ running }: Place): Promise<{ posted: bigint; pending: bigint }> {
  const { data } = (await (await fetch(`${running.adminUrl}/admin/v1/balances?scope=key:test`)).json()) as {
    data: Record<string, string>[]
  }
  const total = data.find(({ window }) => window === 'total')
  return { posted: BigInt(total?.['posted_nano'] ?? 0), pending: BigInt(total?.['pending_nano'] ?? 0) }
}

const points: readonly Point[] = [
  {
    name: 'held in memory',
    asking: { headers: { 'x-halt': 'reserved' } },
    disk: 'stands still before',
    reached: async (place) => (await money(place)).pending > 0n
  },
  {
    name: 'answered in full, and the hold not on disk',
    asking: stream,
    disk: 'stands still before',
    reached: ({ upstream, plan }) => upstream.served.has(plan.id)
  },
  {
    name: 'held on disk',
    asking: { headers: { 'x-halt': 'reserved' } },
    reached: held('dispatched = 0'),
    entry: () => ({ kind: 'void', amount: 0n, source: null })
  },
  { name: 'sent, and nothing answered', plan: { fault: 'hold' }, reached: held('dispatched = 1'), entry: charge(0) },
  {
    name: 'the first byte is out',
    plan: { stopAt: 1 },
    asking: stream,
    reached: ({ text }) => text.includes('data: '),
    entry: charge(0)
  },
  // Every 64 events are told of.
  {
    name: 'in the midst of a stream',
    plan: { stopAt: 150 },
    asking: stream,
    reached: held('delivered_units > 100'),
    entry: charge(128)
  },
  {
    name: 'after the usage, before the end',
    plan: { stopAt: 'done' },
    asking: stream,
    reached: held('delivered_units > 100'),
    entry: charge(192)
  },
  {
    name: 'the end has come, and the settlement is not on disk',
    plan: { gap: 1 },
    asking: stream,
    disk: 'stands still after the first byte',
    reached: async (place) => (await money(place)).pending === 0n,
    entry: () => ({ kind: 'settle', source: 'recovered' })
  },
  {
    name: 'the settlement is on disk, and the end not out',
    asking: { ...stream, headers: { 'x-halt': 'settled' } },
    entry: () => ({ kind: 'settle', source: 'upstream', usage: units })
  },
  {
    name: 'the settlement of a whole answer is on disk, and nothing out',
    asking: { headers: { 'x-halt': 'settled' } },
    entry: () => ({ kind: 'settle', source: 'upstream', usage: units })
  }
]

/** A configuration that knows how to halt where no upstream can. */
function haltingConfig(upstream: PlannedUpstream, file: string, form: Form): More {
  const config = configOf([upstream], {
    store: { ...storeOf(file, form), durability: 'power' },
    quota: { default_output: 500 }
  }) as { chain: object[] }
  config.chain.splice(1, 0, { withhold: {} })
  config.chain.splice(4, 0, { halt: {} })
  return config as unknown as More
}

const script = ['test/chaos/halting.ts']

for (const form of formsFor(1))
  t.test(
    `killed at each point of an exchange, it is in the books once, with what can be known (${form.name})`,
    async (t) => {
      const upstream = await PlannedUpstream.start(t)
      const home = folder(t)
      const file = join(home, 'sluice.db')
      const config = haltingConfig(upstream, file, form)
      const disk = noDisk ? undefined : Disk.make(t, file)
      if (noDisk) t.comment(`points at which the disk stands still are left out: ${noDisk}`)
      const start = (): Promise<Running> => launch(t, home, config, { script, ...(disk && { env: disk.env }) })
      let running = await start()
      const starts = [running.tookMs]
      let ended = 0
      const here = points.filter((point) => point.disk === undefined || disk)
      for (const [index, point] of Array.from({ length: times }, () => here)
        .flat()
        .entries()) {
        const { name, asking = {}, reached, entry } = point
        const plan: Plan = { id: `${name} ${index}`, units, words: 200, ...point.plan }
        const place: Place = { running, upstream, file, plan, text: '' }
        const stopped = plan.stopAt === undefined ? undefined : upstream.stopped()
        if (point.disk === 'stands still before') disk!.set({ writeDelay: Infinity })
        const seeing = ask(running.url, plan, {
          ...asking,
          onText(text) {
            place.text = text
            if (point.disk === 'stands still after the first byte') disk!.set({ writeDelay: Infinity })
          }
        })
        await stopped
        // A book that stands still may be locked for those who read it.
        await eventually(
          reached
            ? () => reached(place)
            : () => journal(file).some(({ class: kind }, at) => kind === 'terminal' && at >= ended)
        )
        await running.end('SIGKILL')
        const seen = await seeing
        disk?.set()
        t.equal(seen.ended, false, `${name}: its client saw no end`)
        if (!entry) t.equal(seen.status, 0, `${name}: its client saw nothing`)

        running = await start()
        starts.push(running.tookMs)
        t.same(rows(file, 'SELECT request_id FROM reservation'), [], `${name}: nothing is open`)
        const entries = journal(file).slice(ended)
        t.equal(entries.length, entry ? 1 : 0, `${name}: ${entry ? 'one entry' : 'not in the books'}`)
        const [end] = entries
        if (entry && end) {
          t.match(end, entry(bodyOf(plan, asking).length), name)
          if (end.usage) t.equal(end.amount, nanoCost(end.usage, prices['plain']!), name)
          const { data } = (await (
            await fetch(`${running.adminUrl}/admin/v1/requests?request_id=${end.request_id}`)
          ).json()) as { data: any[] }
          t.match(
            data,
            [
              {
                request_id: end.request_id,
                cost_nano: String(end.amount),
                endpoint: 'chat',
                client_protocol: 'openai-chat',
                streamed: asking.stream ?? false
              }
            ],
            `${name}: its record`
          )
        }
        const next = await ask(running.url, { id: `after ${plan.id}`, units, words: 1 })
        t.equal(next.status, 200, `${name}: it serves again`)
        await quiet(t, running)
        // The file follows what is acknowledged.
        await eventually(() => journal(file).some(({ request_id: id }) => id === next.id))
        t.same(verify(file), [], `${name}: the book is in order`)
        ended = journal(file).length
      }
      t.comment(`${here.length} points, ${times} kills at each; ${serving(starts)}`)
    }
  )

t.test('what was sent when it was killed costs what it asked for, in whatever unit it is priced', async (t) => {
  const upstream = await Upstream.start(t)
  const home = folder(t)
  const file = join(home, 'sluice.db')
  const own = { talker: { character: 15 }, painter: { image: 0.04 }, listener: { second: 0.0001 } }
  const models = { ...own, ranker: { search: 0.002 }, filmer: { second: 0.1 }, caller: { request: 0.003 } }
  const config = configOf([], {
    store: { sqlite: file },
    models: Object.fromEntries(Object.entries(models).map(([name, price]) => [name, { price }])),
    channels: {
      only: {
        protocol: 'openai',
        base_url: upstream.url.href,
        private: true,
        models: Object.fromEntries(Object.keys(models).map((name) => [name, name])),
        endpoints: ['chat', 'audio', 'images', 'rerank', 'videos']
      }
    }
  })
  const sound = Buffer.alloc(40_000, 'x')
  const form = (model: string, file: object, more: Record<string, string> = {}): { body: Buffer; type: string } =>
    formOf([
      ...Object.entries({ model, ...more }).map(([name, value]) => ({ name, value })),
      { name: 'file', filename: 'a', type: 'audio/mpeg', value: sound, ...file }
    ])
  const json = (body: object): { body: Buffer; type: string } => ({
    body: Buffer.from(JSON.stringify(body)),
    type: 'application/json'
  })
  const png = { name: 'image', type: 'image/png' }
  const asked: [string, { body: Buffer; type: string }, string, Record<string, number>][] = [
    [
      '/v1/audio/speech',
      json({ model: 'talker', voice: 'alloy', input: 'Nineteen characters' }),
      'audio.speech',
      { character: 19 }
    ],
    ['/v1/audio/transcriptions', form('listener', {}), 'audio.transcriptions', { second: 3 }],
    ['/v1/images/generations', json({ model: 'painter', prompt: 'A boat', n: 3 }), 'images', { image: 3 }],
    ['/v1/images/edits', form('painter', png, { prompt: 'Sail', n: '2' }), 'images.edits', { image: 2 }],
    ['/v1/rerank', json({ model: 'ranker', query: 'sea', documents: ['land', 'sea'] }), 'rerank', { search: 1 }],
    [
      '/v1/video/generations',
      json({ model: 'filmer', prompt: 'A boat', seconds: 4 }),
      'videos.generations',
      { second: 4 }
    ],
    [
      '/v1/chat/completions',
      json({ model: 'caller', messages: [{ role: 'user', content: 'Hi' }] }),
      'chat',
      { request: 1 }
    ]
  ]
  const running = await launch(t, home, config)
  upstream.always(stall())
  const open = asked.map(([path, { body, type }]) =>
    fetch(running.url + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${secretOf('test')}`, 'content-type': type },
      body
    }).catch(() => {})
  )
  await eventually(() => rows(file, 'SELECT id FROM reservation WHERE dispatched = 1').length === asked.length, 10_000)
  await running.end('SIGKILL')
  await Promise.all(open)

  const again = await launch(t, home, config)
  await again.end('SIGTERM')
  t.same(verify(file), [], 'the book is in order')
  const ends = new Map(journal(file).map((entry) => [entry.request_id, entry]))
  const records = rows(file, 'SELECT * FROM request').map((row) => recordIn(row as unknown as RecordRow))
  t.equal(records.length, asked.length)
  for (const [, , endpoint, usage] of asked) {
    const record = records.find((one) => one.endpoint === endpoint)
    const end = ends.get(record?.request_id ?? '')
    t.match(end, { kind: 'settle', source: 'recovered', usage }, endpoint)
    t.ok(end!.amount > 0n && end!.amount <= end!.reserved, `${endpoint}: ${end?.amount} of ${end?.reserved}`)
  }
})

/** What a recovery decides of an entry: not when, and not where in the journal. */
function decided(entries: readonly Entry[]): object[] {
  const decisions = entries.map(
    ({ request_id, kind, class: kindOf, amount, reserved, source, usage, channel, scopes }) => ({
      request_id,
      kind,
      kindOf,
      amount,
      reserved,
      source,
      usage,
      channel,
      scopes
    })
  )
  return decisions.sort((a, b) => (a.request_id < b.request_id ? -1 : 1))
}

for (const form of formsFor(0))
  t.test(
    `a recovery that is killed, and the one after it, come to the same books as one that is not (${form.name})`,
    { skip: noDisk },
    async (t) => {
      const upstream = await PlannedUpstream.start(t)
      const home = folder(t)
      const file = join(home, 'sluice.db')
      const config = haltingConfig(upstream, file, form)
      const disk = Disk.make(t, file)
      const start = (): Promise<Running> => launch(t, home, config, { script, env: disk.env })
      const first = await start()
      const open: Promise<unknown>[] = []
      const kinds: [Partial<Plan>, Asking][] = [
        [{}, { headers: { 'x-halt': 'reserved' } }],
        [{ fault: 'hold' }, {}],
        [{ stopAt: 1 }, stream],
        [{ stopAt: 150 }, stream],
        [{}, {}]
      ]
      for (let index = 0; index < 60; index++) {
        const [plan, asking] = kinds[index % kinds.length]!
        open.push(ask(first.url, { id: `r${index}`, units, words: 200, ...plan }, asking))
      }
      const counted = (sql: string, count: number): boolean => rows(file, sql).length === count
      await eventually(
        () =>
          counted('SELECT id FROM reservation', 48) &&
          counted('SELECT id FROM reservation WHERE delivered_units > 100', 12) &&
          counted('SELECT seq FROM journal', 12),
        10_000
      )
      await first.end('SIGKILL')
      await Promise.all(open)

      const backup = join(home, 'backup')
      const own = (): string[] => readdirSync(home).filter((name) => name.startsWith('sluice.db'))
      for (const name of own()) cpSync(join(home, name), join(backup, name), { recursive: true })
      const restore = (): void => {
        for (const name of own()) rmSync(join(home, name), { recursive: true })
        cpSync(backup, home, { recursive: true })
      }
      const finish = async (running: Running): Promise<object[]> => {
        await running.end('SIGTERM')
        t.same(verify(file), [], 'the book is in order')
        return decided(journal(file))
      }

      const before = disk.calls
      const undisturbed = await start()
      const { writes, syncs } = disk.calls
      const calls = writes + syncs - before.writes - before.syncs
      const due = await finish(undisturbed)
      t.equal(due.length, 60)
      const random = chance(7)
      const places = long ? Array.from({ length: calls }, (_, call) => call + 1) : [calls - random(calls >> 1)]
      for (const place of places) {
        restore()
        disk.set({ killAt: place })
        await t.rejects(start(), `killed at call ${place} of ${calls}`)
        disk.set({ killAt: 1 + random(calls) })
        // The second recovery may be over before it is killed.
        const second = await start().catch(() => undefined)
        disk.set()
        await second?.end('SIGKILL')
        t.same(await finish(await start()), due, `killed at call ${place} of ${calls}, and again`)
      }
    }
  )
