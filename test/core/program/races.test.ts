// What comes between the files of a rollback and its reload: edits, other rollbacks, and tenants made meanwhile.
import { readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { definePlugin } from '../../../core/contract/plugin.ts'
import { replaceAndReload } from '../../../core/program/replacement.ts'
import type { Wanted } from '../../../core/program/replacement.ts'
import { plugins } from '../../../plugins/index.ts'
import { ask, connect } from '../../kit/client.ts'
import { gateway } from '../../kit/gateway.ts'
import type { LocalGateway } from '../../kit/gateway.ts'
import { eventually } from '../../kit/probe.ts'

interface Bench {
  local: LocalGateway
  /** Writes gateway.yaml with these tenants beside acme; `fails` refuses its setup. */
  say(tenant: string, fails?: boolean): string
  /** Makes the setups that begin from here on wait, until the returned function is called. */
  hold(): () => void
  /** How many setups wait. */
  waiting(): number
  rollback(body: Record<string, unknown>): ReturnType<typeof ask>
}

/** A gateway whose plugin `gate` is set up when the test says so. */
async function open(t: Test): Promise<Bench> {
  let held: Promise<void> | undefined
  let waiting = 0
  const refused = new Set<string>()
  const gate = definePlugin({
    name: 'gate',
    summary: 'Waits for the test.',
    options: { tenant: { type: 'string', default: '', description: 'Whose setup it is.' } },
    async setup({ tenant }) {
      if (held) {
        waiting++
        await held
        waiting--
      }
      if (refused.has(tenant)) throw new Error(`${tenant} is refused`)
      return {}
    }
  })
  const chain = (tenant: string) => [
    { auth: {} },
    { quota: {} },
    { route: {} },
    { 'protocol-translate': {} },
    { 'usage-meter': {} },
    { gate: { tenant } }
  ]
  const local = await gateway(t, { chain: chain('') }, { plugins: new Map([...plugins, ['gate', gate]]) })
  return {
    local,
    say(tenant, fails = false) {
      if (fails) refused.add(tenant)
      local.configure({ tenants: { acme: {}, [tenant]: {} }, chain: chain(tenant) })
      return readFileSync(local.file, 'utf8')
    },
    hold() {
      const { promise, resolve } = Promise.withResolvers<void>()
      held = promise
      return () => {
        held = undefined
        resolve()
      }
    },
    waiting: () => waiting,
    rollback: (body) => ask(t, local.adminUrl, { method: 'POST', path: '/admin/v1/config/rollback', body })
  }
}

const inUse = async ({ local }: Bench): Promise<string> =>
  Object.keys((await local.admin('/admin/v1/config')).config.tenants).join()
const hashes = async ({ local }: Bench): Promise<string[]> =>
  (await local.admin('/admin/v1/config/history')).data.map(({ hash }: { hash: string }) => hash)

t.test('an edit that is saved while a rollback is refused is not lost', async (t) => {
  const bench = await open(t)
  const { local } = bench
  bench.say('bad')
  await local.gateway.reload('SIGHUP')
  const present = bench.say('good')
  await local.gateway.reload('SIGHUP')
  const [, bad] = await hashes(bench)
  bench.say('bad', true)
  writeFileSync(local.file, present)
  const go = bench.hold()
  const answer = bench.rollback({ hash: bad })
  await eventually(() => bench.waiting() === 1)
  const edit = `${readFileSync(local.file, 'utf8')}\n# an hour of work\n`
  writeFileSync(local.file, edit)
  go()
  t.match(await answer, { status: 422, text: /bad is refused/ })
  t.equal(readFileSync(local.file, 'utf8'), edit, 'what was saved meanwhile stays')
  t.equal(await inUse(bench), 'acme,good')
  const kept = readdirSync(dirname(local.file)).filter((name) => name.startsWith(`${basename(local.file)}.`))
  t.ok(
    kept.some((name) => readFileSync(join(dirname(local.file), name), 'utf8') === present),
    'and what was in use is kept aside'
  )
})

t.test('an edit that is saved while new texts are written beside their files is not lost', async (t) => {
  const folder = t.testdir({ 'gateway.yaml': 'before', 'more.yaml': 'more' })
  const [main, more] = [join(folder, 'gateway.yaml'), join(folder, 'more.yaml')]
  const wanted: Wanted[] = [
    { file: main, text: 'after', was: 'before' },
    {
      file: more,
      was: 'more',
      // Read when the first text has been written beside its file, which a disk may take its time for.
      get text() {
        writeFileSync(main, 'of an editor')
        return 'after'
      }
    }
  ]
  const reload = (): never => t.fail('nothing is reloaded') as never
  const replaced = replaceAndReload(wanted as [Wanted, ...Wanted[]], reload, false)
  await t.rejects(replaced, { name: 'ReplacementRefused', message: /changed meanwhile/ })
  t.same(readdirSync(folder).toSorted(), ['gateway.yaml', 'more.yaml'])
  t.equal(readFileSync(main, 'utf8'), 'of an editor')
  t.equal(readFileSync(more, 'utf8'), 'more')
})

t.test('rollbacks go one after another, and each says what is in use after it', async (t) => {
  const bench = await open(t)
  const { local } = bench
  const texts: string[] = []
  for (const name of ['bad', 'first', 'present']) {
    texts.push(bench.say(name))
    await local.gateway.reload('SIGHUP')
  }
  const [, text, present] = texts
  const [, first, bad] = await hashes(bench)
  bench.say('bad', true)
  writeFileSync(local.file, present!)
  const go = bench.hold()
  const one = bench.rollback({ hash: bad, force: true })
  await eventually(() => bench.waiting() === 1)
  const other = bench.rollback({ hash: first, force: true })
  // Answers to what was asked later: the other rollback has come by then.
  for (let i = 0; i < 5; i++) await local.admin('/admin/v1/config')
  go()
  t.match(await one, { status: 422 })
  const done = (await other).json()
  t.match(done, { ok: true, hash: first, to: first })
  t.equal(await inUse(bench), 'acme,first')
  t.equal(readFileSync(local.file, 'utf8'), text)
})

t.test(
  'a tenant that is made while a file with its name is set up refuses the file, and not the reload after it',
  async (t) => {
    const bench = await open(t)
    const { local } = bench
    const go = bench.hold()
    bench.say('fresh')
    const reload = local.gateway.reload('SIGHUP')
    await eventually(() => bench.waiting() === 1)
    t.equal((await ask(t, local.adminUrl, { path: '/admin/v1/tenants', body: { name: 'fresh' } })).status, 201)
    go()
    t.match(await reload, { ok: false, problems: [{ message: /a tenant fresh is in the store too/ }] })
    t.equal(await inUse(bench), 'acme')
  }
)

t.test('a tenant whose request came slowly is compared with the file that is in use when it is there', async (t) => {
  const bench = await open(t)
  const { local } = bench
  const body = JSON.stringify({ name: 'slow' })
  const client = await connect(t, local.adminUrl)
  const head = `content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n`
  client.write(`POST /admin/v1/tenants HTTP/1.1\r\nhost: localhost\r\n${head}${body.slice(0, 5)}`)
  for (let i = 0; i < 5; i++) await local.admin('/admin/v1/config')
  bench.say('slow')
  t.match(await local.gateway.reload('SIGHUP'), { ok: true })
  client.write(body.slice(5))
  t.match(await client.reply(), { status: 409, text: /There is a tenant slow already/ })
  t.match(await local.gateway.reload('SIGHUP'), { ok: true })
})
