// Hand-overs that fail: what clients see, and what those learn who watch the gateway.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { completion, delta, done, finish, opening, sse, usage } from '../../faults/vendor.ts'
import { ask } from '../../kit/client.ts'
import type { Client } from '../../kit/client.ts'
import { sluice } from '../../kit/command.ts'
import { spawnGateway, testKey } from '../../kit/gateway.ts'
import type { SpawnedGateway } from '../../kit/gateway.ts'
import { eventually } from '../../kit/probe.ts'
import { endOfBody, events, until, Upstream } from '../../kit/upstream.ts'

t.setTimeout(600_000)
// Two of them wait for the ends of times of half a minute and more.
t.jobs = 4
const patience = 300_000
const upgrade = { method: 'POST', path: '/admin/v1/upgrade' }
const steps = ['sabotage', 'auth', 'quota', 'ratelimit', 'route', 'protocol-translate', 'usage-meter']

interface Scene {
  running: SpawnedGateway
  /** A client that has seen the beginning of an answer. */
  client: Client
  /** Lets the upstream end that answer. */
  goOn: () => void
  /** Asks for a hand-over in this way. Resolves when the next process is about to fail. */
  failing: (ask: () => void) => Promise<void>
}

/** A gateway whose next process fails in this way. See sabotage.ts. */
async function sabotaged(t: Test, way: string): Promise<Scene> {
  const vendor = await Upstream.start(t)
  const { promise, resolve: goOn } = Promise.withResolvers<void>()
  const rest = events([delta(' far'), finish, usage, done])
  vendor.script(sse, events([opening, delta('So')]), until(promise), rest, endOfBody()).json(completion)
  const plugins = { sabotage: join(import.meta.dirname, 'sabotage.ts') }
  const chain = [...steps.map((name) => ({ [name]: {} })), { log: { sink: 'none' } }]
  const running = await spawnGateway(t, { plugins, chain }, { upstreams: { vendor }, env: { SABOTAGE: way } })
  const client = await running.openChat({ stream: true })
  await client.body('So')
  const failing = async (ask: () => void): Promise<void> => {
    // On a busy machine a process may take longer to load than it is given: then it is asked for again.
    let asked = 0
    await eventually(() => {
      if (running.output().includes(`a process that ${way}`)) return true
      const late = running.output().split('could not take the place of this one, which serves on').length - 1
      if (asked === late) {
        asked++
        ask()
      }
      return false
    }, patience)
  }
  return { running, client, goOn, failing }
}

/** Holds that the first process has the store, and serves, after a hand-over that failed for this reason. */
async function servesOn(t: Test, { running }: Scene, reason: RegExp): Promise<void> {
  await eventually(() => reason.test(running.output()), patience)
  t.match(running.output(), /"the next process could not take the place of this one, which serves on"/)
  t.equal((await running.chat()).status, 200)
  t.strictSame(running.pids(), [running.process.pid])
  const { data } = await running.admin('/admin/v1/requests')
  t.match(data, [{ outcome: 'completed' }, { outcome: 'completed', usage_source: 'upstream' }])
  running.process.kill('SIGTERM')
  t.strictSame(await running.exited, { code: 0, signal: null })
  const verified = await sluice(['ledger', 'verify', '--db', join(running.file, '..', 'sluice.db')])
  t.equal(verified.code, 0, verified.out)
}

t.test('a process that can neither hand its store over nor take it back ends in order, and says so', async (t) => {
  const { running, client, goOn, failing } = await sabotaged(t, 'takes the store with it')
  await failing(() => running.process.kill('SIGUSR2'))
  goOn()
  const reply = await client.reply()
  t.match(reply.text, /billing_unavailable/, 'what cannot be accounted for does not look complete')
  t.notMatch(reply.text, /\[DONE\]/)
  t.strictSame(await running.exited, { code: 1, signal: null }, 'whoever watches the gateway starts it anew')
  const output = running.output()
  t.match(output, /"the store could not be taken back/)
  t.match(output, /"the gateway stops".*"reason":"an upgrade failed"/)
  t.match(output, /"the gateway has stopped"/)
  t.notMatch(output, /a fault that nothing caught/)
})

t.test('a process that does not load in its time is given up, and the old one serves on', async (t) => {
  const scene = await sabotaged(t, 'hangs while it loads')
  const { running, client, goOn, failing } = scene
  await failing(() => running.process.kill('SIGUSR2'))
  const refused = await ask(t, running.adminUrl, upgrade)
  t.match([refused.status, refused.json().error.message], [409, /an upgrade is under way already: process \d+/])
  goOn()
  t.match((await client.reply()).text, /\[DONE\]/)
  await servesOn(t, scene, /it was not loaded within 90 seconds/)
})

t.test('a process that does not get the store open in its time gives it back', async (t) => {
  const scene = await sabotaged(t, 'hangs with the store')
  const { running, client, goOn, failing } = scene
  let asked!: ReturnType<typeof ask>
  await failing(() => (asked = ask(t, running.adminUrl, upgrade)))
  goOn()
  t.match((await client.reply()).text, /\[DONE\]/, 'the end of an exchange waits for whoever has the store')
  const reply = await asked
  t.match([reply.status, reply.json().error.message], [409, /it has not opened the store within 30 seconds/])
  await servesOn(t, scene, /it has not opened the store within 30 seconds/)
})

t.test('a folder of temporary files with a name too long for a socket is no hindrance', async (t) => {
  const short = mkdtempSync(join(tmpdir(), 'sluice-'))
  t.teardown(() => rmSync(short, { recursive: true, force: true }))
  const folder = join(short, 'long'.repeat(30))
  mkdirSync(folder)
  const running = await spawnGateway(t, {}, { env: { TMPDIR: folder } })
  const kept = await running.openChat()
  t.equal((await kept.reply()).status, 200)
  const reply = await ask(t, running.adminUrl, upgrade)
  t.match([reply.status, reply.json()], [200, { ok: true, generation: 2 }])
  const again = kept.send({
    path: '/v1/chat/completions',
    headers: { authorization: `Bearer ${testKey}` },
    body: { model: 'demo', messages: [{ role: 'user', content: 'Hi' }] }
  })
  t.equal((await again.reply()).status, 200, 'a connection of the old process is served by the new one')
  t.strictSame(await running.exited, { code: 0, signal: null })
})

t.test('a process that fails with the store gives it back at once', async (t) => {
  const scene = await sabotaged(t, 'fails with the store')
  const { running, client, goOn, failing } = scene
  let asked!: ReturnType<typeof ask>
  await failing(() => (asked = ask(t, running.adminUrl, upgrade)))
  const reply = await asked
  t.match([reply.status, reply.json().error.message], [409, /sabotage/])
  goOn()
  t.match((await client.reply()).text, /\[DONE\]/)
  await servesOn(t, scene, /sabotage/)
})
