// A large configuration is read by a thread: what comes of it is what would have been read here.
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import type { Worker } from 'node:worker_threads'
import t from 'tap'
import { withoutSection } from '../../../config/files/apart.ts'
import { ConfigReader, readConfig } from '../../../core/program/configuration.ts'
import type { ConfigError } from '../../../core/program/configuration.ts'
import type { Files } from '../../../config/files/files.ts'
import type { Config, Problem } from '../../../core/catalogue/settings.ts'
import { readApart } from '../../../core/program/reading.ts'
import { plugins } from '../../../plugins/index.ts'
import { gateway } from '../../kit/gateway.ts'

const env = { SECRET: 'sk-from-the-environment', PRICE: '1.25' }
const count = 600

const key = (number: number, more = ''): string =>
  `- { name: k${number}, key: sk-${String(number).padStart(40, '0')}, tenant: acme, project: web, limits: { rpm: ${number + 1}${number % 5 === 0 ? ', models: { m: { rpm: 1 } }' : ''} }${more} }`

const head = `
x-shared: &shared { rpm: 60 }
channels: { up: { protocol: openai, base_url: "https://example.com/v1", credential: "\${SECRET}", models: { m: m } } }
models:
  m: { price: { input: "\${PRICE}", output: 2 }, context_window: 1000 }
`
const tail = `
tenants:
  acme: { budget: { usd: 5, per: day }, projects: { web: { members: { alice: { limits: *shared } } } } }
chain: [auth, quota, usage-meter]
`
const budget = ', budget: { usd: "0.5", per: month }, expires: 2027-01-01, tags: { a: b }'

/** Files of the same keys, by what is special about how they are written. */
const forms: Record<string, (keys: readonly string[]) => Record<string, string>> = {
  'in the middle': (keys) => ({ 'gateway.yaml': `${head}keys:\n  ${keys.join('\n  ')}\n# the end\n${tail}` }),
  'at the beginning, without an indent': (keys) => ({
    'gateway.yaml': `"keys": # all of them\n${keys.join('\n\n')}\n${head}${tail}`
  }),
  'in included files': (keys) => ({
    'gateway.yaml': `include: [more/]\n${head}${tail}`,
    'more/a.yaml': `keys:\n${keys.slice(0, 350).join('\n')}\n`,
    'more/b.yaml': `tenants: { other: {} }\r\nkeys:\r\n${keys.slice(350).join('\r\n')}\r\n`
  }),
  'with an anchor that is used elsewhere': (keys) => ({
    'gateway.yaml': `${head.replace('&shared { rpm: 60 }', '{}')}keys:\n${keys.join('\n').replace('{ rpm: 2 }', '&shared { rpm: 2 }')}\n${tail}`
  }),
  'on one line with all else': (keys) => ({
    'gateway.yaml': `{ ${`${head}${tail}`
      .replace('x-shared: &shared { rpm: 60 }', '')
      .replace(', projects: { web: { members: { alice: { limits: *shared } } } }', ', projects: { web: {} }')
      .trim()
      .replace('models:\n  m: {', 'models: { m: {')
      .replace('context_window: 1000 }', 'context_window: 1000 } }')
      .replace('tenants:\n  acme: {', 'tenants: { acme: {')
      .replace('web: {} } }', 'web: {} } } }')
      .split('\n')
      .filter((line) => line !== '')
      .join(',\n')}, keys: [ ${keys.map((one) => one.slice(2)).join(', ')} ] }`
  })
}

/** The forms that a thread cannot divide, and leaves to who asked it. */
const undivided: ReadonlySet<string> = new Set(['with an anchor that is used elsewhere', 'on one line with all else'])

function fill(folder: string, files: Record<string, string>): string {
  mkdirSync(join(folder, 'more'), { recursive: true })
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
  return join(folder, 'gateway.yaml')
}

const problemsOf = (reading: Promise<Config>): Promise<readonly Problem[]> =>
  reading.then(
    () => [],
    (error: ConfigError) => error.problems
  )

for (const [name, formOf] of Object.entries(forms)) {
  t.test(`keys ${name} are read by a thread as here`, async (t) => {
    const keys = Array.from({ length: count }, (_, number) => key(number, number % 7 === 0 ? budget : ''))
    const file = fill(t.testdir(), formOf(keys))
    const reader = new ConfigReader({ file, env, plugins })
    const first = await reader.read()
    t.equal(first.keys.length, count)
    const hashes = [...reader.files]
    const rest = (files: Files): Promise<Config> =>
      readConfig({ file, env, plugins }, undefined, files).then(({ config }) => config)
    const apart = await readApart({ file, env, simulator: undefined }, rest)
    if (undivided.has(name)) {
      t.equal(apart, undefined, 'the thread leaves it to who asked')
      return reader.close()
    }
    t.ok(apart && 'config' in apart && isDeepStrictEqual(apart.config, first), 'the same in all')
    t.strictSame([...apart!.files.hashes], hashes, 'the same files are watched')
    const again = await reader.read()
    t.not(again, first)
    t.equal(again.keys.length, count)

    fill(dirname(file), formOf(keys.with(3, key(3, ', rmp: 5'))))
    const here = await problemsOf(readConfig({ file, env, plugins }).then(({ config }) => config))
    t.match(here, [{ message: /rmp: unknown key/ }])
    t.strictSame(await problemsOf(reader.read()), here, 'what is wrong has the same words and places')
    t.not(reader.files.get(file) ?? '', '', 'the faulty file is watched')
    const late = t.rejects(reader.read(), { message: 'the gateway stops' })
    await reader.close()
    await late
  })
}

/** A file that a thread reads again, with this before all else. */
function large(folder: string, first = ''): string {
  const keys = Array.from({ length: count }, (_, number) => key(number))
  return fill(folder, { 'gateway.yaml': `${first}${head}keys:\n  ${keys.join('\n  ')}\n${tail}` })
}

t.test('what a thread fails to read is read here, and the new files are watched', async (t) => {
  const file = large(t.testdir())
  const reader = new ConfigReader({ file, env, plugins })
  t.teardown(() => reader.close())
  const { hash } = await reader.read()
  large(dirname(file), '# another\n')
  const before = reader.files.get(file)
  process.once('worker', (thread: Worker) => void thread.terminate())
  t.equal((await reader.read()).hash === hash, false)
  t.not(reader.files.get(file), before)
})

t.test('modules of plugins run here, in no thread that reads', async (t) => {
  const folder = t.testdir({
    'mine.mjs': `
      import { isMainThread } from 'node:worker_threads'
      import { definePlugin } from 'sluice/plugin'
      if (!isMainThread) throw new Error('there is one of me')
      export default definePlugin({ name: 'mine', summary: 'Runs once.', options: {}, setup: () => ({}) })`
  })
  const file = large(folder)
  const reader = new ConfigReader({ file, env, plugins })
  t.teardown(() => reader.close())
  await reader.read()
  const threads: Worker[] = []
  const notice = (thread: Worker): void => void threads.push(thread)
  process.on('worker', notice)
  t.teardown(() => process.off('worker', notice))
  for (const [comment, begun] of [
    ['', 1],
    ['# and again\n', 1]
  ] as const) {
    large(folder, `${comment}plugins: { mine: ./mine.mjs }\n`)
    await reader.read()
    t.ok(reader.plugins.has('mine'))
    t.equal(threads.length, begun, 'a file with plugins that are known is given to no thread')
  }
  await t.resolves(reader.look())
})

t.test('a stop gives up what is being read, which is no fault of the file', async (t) => {
  const keys = Array.from({ length: count }, (_, number) => ({
    name: `k${number}`,
    key: `sk-${String(number).padStart(100, '0')}`,
    tenant: 'acme'
  }))
  const local = await gateway(t, { keys })
  const reload = local.gateway.reload('SIGHUP')
  await local.gateway.close()
  const { ok, problems } = await reload
  if (!ok) t.match(problems, [{ message: 'the gateway stops' }])
  t.match(await local.gateway.reload('SIGHUP'), { ok: false, problems: [{ message: 'the gateway stops' }] })
  t.same(
    local.lines.filter(({ level }) => level === 'error'),
    []
  )
})

t.test('a section is taken out of a text and leaves all else in its place', (t) => {
  const text = 'a: 1\nkeys:\n- b\n  # c\n\n- d\n"e": 2\nkeysmith: 3\n\'keys\' : 4\n# f\ng: keys:\n'
  t.equal(withoutSection(text, 'keys'), 'a: 1\nkeys: []\n\n\n\n\n"e": 2\nkeysmith: 3\nkeys: []\n\ng: keys:\n')
  t.end()
})
