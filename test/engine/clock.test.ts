// Somebody sets the clock a day ahead, or back, and right again: what was to last for hours is still there.
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import { SecretBook } from '../../core/store/embedded/book/secret-book.ts'
import { MemoryCache } from '../../core/store/memory/cache.ts'
import { steadyNow } from '../../core/watchdog/steady-time.ts'
import { Keepsakes } from '../../plugins/protocol-translate/keepsakes.ts'
import { gateway } from '../kit/gateway.ts'
import { MemoryDocuments } from '../kit/documents.ts'
import { eventually } from '../kit/probe.ts'

const day = 86_400_000

/** While this runs the clock of this process is off. */
async function off<T>(t: Test, ms: number, run: () => Promise<T>): Promise<T> {
  const { now } = Date
  t.teardown(() => void (Date.now = now))
  Date.now = () => now() + ms
  try {
    return await run()
  } finally {
    Date.now = now
  }
}

const config = {
  tasks: { poll: { first: '20ms', most: '50ms' } },
  channels: { demo: { protocol: 'simulator', models: { demo: 'demo' } } },
  models: { demo: { price: { input: 1, output: 2, second: 0.1, image: 0.04 } } },
  chain: [
    { auth: {} },
    { idempotency: {} },
    { quota: {} },
    { ratelimit: {} },
    { route: { repeats: 0 } },
    { 'protocol-translate': {} },
    { 'usage-meter': {} },
    { log: { sink: 'none' } }
  ]
}

t.test('a jump of a day expires no work: it is done, and charged, and what came of it is there', async (t) => {
  const local = await gateway(t, config)
  const directive = (ms: number): string => `A boat [[simulator {"queue_ms":0,"work_ms":${ms}}]]`
  const begin = async (ms: number): Promise<{ id: string; headers: Record<string, string> }> => {
    const reply = await local.ask({
      path: '/v1/video/generations',
      body: { model: 'demo', prompt: directive(ms), seconds: 4 }
    })
    t.equal(reply.status, 202, reply.text)
    return { id: reply.json().id, headers: reply.headers }
  }
  const stateOf = async ({ id }: { id: string }): Promise<string> =>
    (await local.ask({ method: 'GET', path: `/v1/video/generations/${id}` })).json().status
  const during = await begin(2500)
  const done = await begin(0)
  await eventually(async () => (await stateOf(done)) === 'succeeded', 15_000)
  for (const jump of [day, -day, 40 * day]) {
    const begun = await off(t, jump, async () => {
      const one = await begin(0)
      // The rounds go on, and what has ended is looked for.
      await sleep(300)
      t.not(await stateOf(during), 'expired', `${jump}`)
      t.equal(await stateOf(done), 'succeeded', `${jump}`)
      return one
    })
    await eventually(async () => (await stateOf(begun)) === 'succeeded', 15_000)
    t.match(
      await local.record(begun),
      { cost_nano: '400000000', error_code: null },
      `begun while the clock was off by ${jump}`
    )
  }
  await eventually(async () => (await stateOf(during)) === 'succeeded', 15_000)
  t.match(await local.record(during), { cost_nano: '400000000', error_code: null })
})

t.test('an answer that is kept is given again whatever the clock says, and nothing is charged twice', async (t) => {
  const local = await gateway(t, config)
  const send = (): ReturnType<typeof local.ask> =>
    local.ask({
      path: '/v1/chat/completions',
      headers: { 'idempotency-key': 'once' },
      body: { model: 'demo', messages: [{ role: 'user', content: 'Hi' }] }
    })
  const first = await send()
  t.equal(first.status, 200)
  // The database answers, and not the memory.
  await sleep(1500)
  for (const jump of [3 * day, -3 * day]) {
    const again = await off(t, jump, send)
    t.equal(again.headers['idempotency-replayed'], 'true', `${jump}`)
    t.equal(again.text, first.text)
  }
})

t.test('client secrets and what clients cannot keep outlast a jump', async (t) => {
  const secrets = new SecretBook(new MemoryDocuments())
  const keepsakes = new Keepsakes(new MemoryCache(1024 * 1024))
  const isKept = (call: string): boolean => (keepsakes.find('acme', [call]) as ReadonlyMap<string, unknown>).has(call)
  const sha256 = Buffer.alloc(32, 1)
  const kept = { sha256, issuer: Buffer.alloc(32, 2), model: 'demo', expires: steadyNow() + 60_000 }
  t.ok(await secrets.put(kept))
  keepsakes.put('acme', 'call', { signature: 'a' } as unknown as Parameters<Keepsakes['put']>[2])
  await off(t, day, async () => {
    t.ok(secrets.find(sha256))
    t.ok(await secrets.put({ ...kept, sha256: Buffer.alloc(32, 3) }), 'others come, and what expired goes')
    t.ok(isKept('call'))
    keepsakes.put('acme', 'another', { signature: 'b' } as unknown as Parameters<Keepsakes['put']>[2])
  })
  t.ok(secrets.find(sha256))
  t.ok(isKept('call'))
})
