// What every store promises of claims, client secrets, kept answers and routes: found by their name and owner alone.
import { hash, randomBytes } from 'node:crypto'
import t from 'tap'
import type { KeptAnswer } from '../../../../core/store/answers.ts'
import type { Route } from '../../../../core/store/routes.ts'
import { eventually } from '../../../kit/probe.ts'
import { eachStore } from '../../../kit/stores.ts'

const digest = (text: string): Buffer => hash('sha256', text, 'buffer')

eachStore(
  t,
  ['claims'],
  'of all who claim a name at once one has it, until it is left',
  async (t, { services: { claims } }) => {
    const taken = await Promise.all(Array.from({ length: 20 }, async (_, i) => claims.take('name', digest(String(i)))))
    t.equal(taken.filter((what) => what === undefined).length, 1)
    const winner = taken.indexOf(undefined)
    for (const what of taken) if (what) t.same(Buffer.from(what), digest(String(winner)), 'they are told for what')
    t.same(Buffer.from((await claims.look('name'))!), digest(String(winner)))
    t.equal(await claims.look('other'), undefined)
    claims.leave('name')
    await eventually(async () => (await claims.look('name')) === undefined)
    t.equal(await claims.take('name', digest('next')), undefined)
  }
)

eachStore(t, ['claims'], 'a name may have any characters', async (t, { services: { claims } }) => {
  // Names are digests, a byte a character.
  for (const name of ['\0\x80\xff', '\x7f\0']) {
    t.equal(await claims.take(name, digest(name)), undefined)
    t.same(Buffer.from((await claims.look(name))!), digest(name))
    t.same(Buffer.from((await claims.take(name, digest('again')))!), digest(name))
    claims.leave(name)
    await eventually(async () => (await claims.look(name)) === undefined)
  }
})

eachStore(
  t,
  ['secrets'],
  'a client secret is found until its time, and no key has too many',
  async (t, { services: { secrets } }) => {
    const secret = (
      name: string,
      issuer: string,
      expires = Date.now() + 600_000
    ): Parameters<typeof secrets.put>[0] => ({
      sha256: digest(name),
      issuer: digest(issuer),
      model: 'demo',
      expires,
      settings: '{"type":"realtime"}',
      budget: 10n
    })
    t.equal(await secrets.put(secret('one', 'a')), true)
    t.match(await secrets.find(digest('one')), {
      model: 'demo',
      settings: '{"type":"realtime"}',
      budget: 10n
    })
    t.equal(await secrets.find(digest('two')), undefined)
    await secrets.put(secret('past', 'a', Date.now() - 60_000))
    t.equal(await secrets.find(digest('past')), undefined)
    let full = false
    for (let i = 0; !full && i < 5000; i++) full = !(await secrets.put(secret(`more ${i}`, 'a')))
    t.ok(full)
    t.equal(await secrets.put(secret('other', 'b')), true, 'and that of one key takes no room of another')
  }
)

eachStore(
  t,
  ['secrets'],
  'what all sessions of a client secret spend together is held and charged once, and never more than it may',
  async (t, { services: { secrets } }) => {
    const sha256 = digest('spender')
    await secrets.put({ sha256, issuer: digest('key'), model: 'demo', expires: Date.now() + 600_000, budget: 100n })
    const hold = async (name: string, amount: bigint): Promise<unknown> => secrets.hold(sha256, name, amount)
    const spent = async (): Promise<unknown> => secrets.spent(sha256)
    const held = await Promise.all(Array.from({ length: 8 }, (_, i) => hold(`turn ${i}`, 30n)))
    t.equal(held.filter((refused) => refused === undefined).length, 3, 'of all who ask at once those that fit')
    t.match(
      held.find((refused) => refused),
      { posted: 0n }
    )
    t.same(await spent(), { posted: 0n, pending: 90n })
    const names = held.flatMap((refused, i) => (refused === undefined ? [`turn ${i}`] : []))
    t.equal(await hold(names[0]!, 30n), undefined, 'what is held is held once')
    secrets.end(sha256, names[0]!, 5n)
    secrets.end(sha256, names[0]!, 5n)
    secrets.end(sha256, 'never held', 50n)
    secrets.end(sha256, names[1]!, 0n)
    await eventually(async () => {
      const { posted, pending } = (await spent()) as { posted: bigint; pending: bigint }
      return posted === 5n && pending === 30n
    })
    t.equal(await hold('exact', 65n), undefined, 'to the last nano-dollar')
    t.same(await hold('more', 1n), { posted: 5n, pending: 95n })
    t.equal(await hold('nothing', 0n), undefined, 'nothing is always held')
    // What a turn costs may be more than it held.
    secrets.end(sha256, 'nothing', 2n ** 70n)
    await eventually(async () => ((await spent()) as { posted: bigint }).posted === 2n ** 70n + 5n)
    t.match(await hold('last', 1n), { posted: 2n ** 70n + 5n, pending: 95n })
    await t.rejects(async () => secrets.hold(digest('unknown'), 'turn', 1n), { code: 'quota_key_exceeded' })
    await t.rejects(async () => secrets.spent(digest('unknown')), { code: 'quota_key_exceeded' })
  }
)

const answer = (body: Buffer | undefined, more: Partial<KeptAnswer> = {}): KeptAnswer => ({
  asked: digest('asked'),
  status: 200,
  type: 'application/json',
  headers: { location: '/x' },
  streamed: false,
  body,
  ...more
})

eachStore(t, ['answers'], 'a kept answer is found as it was, byte for byte', async (t, { services: { answers } }) => {
  const bodies = [randomBytes(100), randomBytes(900_000), Buffer.alloc(0), undefined]
  await Promise.all(
    bodies.map((body, i) => answers.put(digest(String(i)), 'acme', answer(body, { streamed: i === 1 })))
  )
  for (const [i, body] of bodies.entries()) {
    const found = await answers.find(digest(String(i)))
    t.match(found, { status: 200, type: 'application/json', headers: { location: '/x' }, streamed: i === 1 })
    t.same(found?.body && Buffer.from(found.body), body)
  }
  t.equal(await answers.find(digest('none')), undefined)
  await answers.put(digest('0'), 'acme', answer(Buffer.from('anew')))
  t.equal(String((await answers.find(digest('0')))!.body), 'anew')
})

const owner = { tenant: 'acme', project: 'web' }
const route = (id: string, more: Partial<Route> = {}): Route => ({
  ...owner,
  id,
  kind: 'response',
  channel: 'openai',
  account: 'a1',
  model: 'gpt-5',
  tokens: 780,
  ...more
})

eachStore(
  t,
  ['routes'],
  'a route is found by its owner alone, until it is removed',
  async (t, { services: { routes } }) => {
    const put = routes.put([route('one'), route('two', { kind: 'item', tokens: null })])
    await put
    await routes.put([route('one', { tenant: 'rival', account: 'a2' })])
    t.match(await routes.find(owner, 'one'), route('one'))
    t.match(await routes.find(owner, 'two'), { kind: 'item', tokens: null })
    t.match(await routes.find({ tenant: 'rival', project: 'web' }, 'one'), { account: 'a2' })
    for (const [who, id] of [
      [{ tenant: 'acme', project: '' }, 'one'],
      [{ tenant: 'rival', project: 'web' }, 'two'],
      [owner, 'ONE']
    ] as const)
      t.equal(await routes.find(who, id), undefined)
    await routes.remove(owner, 'one')
    t.equal(await routes.find(owner, 'one'), undefined)
    t.match(
      await routes.find({ tenant: 'rival', project: 'web' }, 'one'),
      { account: 'a2' },
      'of another owner it stays'
    )
  }
)
