// What is said of the differences between two configurations: everything, in words, and never a secret.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { loadConfig } from '../../../config/load.ts'
import { changesOf, inWords } from '../../../core/program/changes.ts'
import type { Change } from '../../../core/program/changes.ts'
import type { Config } from '../../../core/catalogue/settings.ts'
import { plugins } from '../../config/plugins.ts'
import { sluice } from '../../kit/command.ts'
import { mostHeld } from '../../kit/turns.ts'

const file = join(t.testdir(), 'gateway.yaml')

function load(text: string, env: Record<string, string> = {}): Config {
  writeFileSync(file, text)
  const { config, problems } = loadConfig(file, { env, plugins, simulatorUrl: new URL('http://127.0.0.1:1/v1') })
  if (!config) throw new Error(problems.map(({ place, message }) => `${place} ${message}`).join('\n'))
  return config
}

const before = `
listen: { port: 8080 }
admin: { token: "\${TOKEN}" }
limits: { drain_timeout: 30s }
channels:
  east: { protocol: openai, base_url: https://east.example/v1, credential: hunter-east, weight: 1, models: { gpt: gpt-5 } }
  west: { protocol: openai, base_url: https://west.example/v1, credential: hunter-west, models: { gpt: gpt-5 } }
models:
  gpt: { price: { input: 1, output: 2 } }
tenants: { acme: { budget: { usd: 5, per: day } , projects: { web: { members: { al: {} } } } } }
keys:
  - { name: one, key: sk-hunter-1, tenant: acme }
  - { name: two, key: sk-hunter-2, tenant: acme }
chain:
  - auth
  - log: { level: info }
`

const env = { TOKEN: 'hunter-token-0123456789' }

/** The file with more keys. */
function withKeys(more: number): string {
  const keys = Array.from({ length: more }, (_, index) => `  - { name: k${index}, key: sk-k${index}, tenant: acme }\n`)
  return before.replace('keys:\n', `keys:\n${keys.join('')}`)
}

/** The changes of the file in words, by replacing texts in it. */
async function words(
  edits: readonly [string, string][],
  envs: [Record<string, string>, Record<string, string>?] = [{}]
): Promise<string[]> {
  const [env, other = env] = envs.map((one) => ({ TOKEN: 'hunter-token-0123456789', ...one }))
  let after = before
  for (const [old, next] of edits) {
    if (!after.includes(old)) throw new Error(`the file has no ${old}`)
    after = after.replace(old, next)
  }
  return inWords(await changesOf(load(before, env), load(after, other)))
}

t.test('nothing is said of files that mean the same', async (t) => {
  t.strictSame(await words([]), [])
  t.strictSame(await words([['- auth\n', '- auth: {}\n']]), [], 'another way to write it')
})

t.test('what is added, removed and changed is named with its values', async (t) => {
  t.strictSame(await words([['weight: 1', 'weight: 2']]), ['channel east: weight changes from 1 to 2'])
  t.strictSame(await words([['input: 1,', 'input: 1.5,']]), ['model gpt: price.input changes from 1 to 1.5'])
  t.strictSame(await words([['{ input: 1, output: 2 }', 'free']]), [
    'model gpt: price changes from {"input":1,"output":2} to "free"'
  ])
  t.strictSame(await words([['members: { al: {} }', 'members: { bo: {} }']]), [
    'tenant acme: projects.web.members.al is removed (it was {})',
    'tenant acme: projects.web.members.bo is added: {}'
  ])
  t.strictSame(await words([['  - { name: one, key: sk-hunter-1, tenant: acme }\n', '']]), ['key one is removed'])
  t.strictSame(await words([['keys:\n', 'keys:\n  - { name: new, key: sk-hunter-3, tenant: acme }\n']]), [
    'key new is added'
  ])
  t.strictSame(await words([['level: info', 'level: debug']]), [
    'plugin log of the chain: level changes from "info" to "debug"'
  ])
  t.strictSame(await words([['drain_timeout: 30s', 'drain_timeout: 20s, client_stall: 5s']]), [
    'limits.drain_timeout changes from "30s" to "20s"',
    'limits.client_stall is added: "5s"; this needs a restart'
  ])
  t.strictSame(await words([['port: 8080', 'port: 8081']]), [
    'listen.port changes from 8080 to 8081; this needs a restart'
  ])
  t.strictSame(await words([['admin:', 'workers: auto\nadmin:']]), ['workers is added: "auto"; this needs a restart'])
  t.strictSame(await words([['  - auth\n  - log: { level: info }', '  - log: { level: info }\n  - auth']]), [
    'the order of the chain changes to log, auth'
  ])
})

t.test('a secret is said to change, and is never shown', async (t) => {
  t.strictSame(await words([['hunter-east', 'hunter-new']]), ['channel east: credential changes'])
  t.strictSame(await words([['sk-hunter-2', 'sk-hunter-3']]), ['key two: key changes'])
  t.strictSame(await words([['credential: hunter-west, ', '']]), [
    'channel west: credential is removed (it was "[redacted]")'
  ])
  t.strictSame(
    await words([], [{}, { TOKEN: 'hunter-token-9876543210' }]),
    ['admin.token changes; this needs a restart'],
    'a variable that changes'
  )
  const swapped = await words([
    ['name: one, key: sk-hunter-1', 'name: one, key: sk-hunter-x'],
    ['name: two, key: sk-hunter-2', 'name: two, key: sk-hunter-1']
  ])
  t.strictSame(swapped, ['key one: key changes', 'key two: key changes'])
})

t.test('many changes are counted', async (t) => {
  const said = inWords(await changesOf(load(before, env), load(withKeys(120), env)))
  t.equal(said.length, 51)
  t.equal(said.at(-1), 'and 70 more')
})

t.test('a comparison of files with many keys holds no turn of the event loop for long', async (t) => {
  const many = withKeys(10_000)
  const one = load(many, env)
  const cases: [string, Config, number][] = [
    ['with one other limit', load(many.replace('name: k5000,', 'name: k5000, limits: { rpm: 1 },'), env), 1],
    ['without the keys', load(before, env), 10_000]
  ]
  for (const [what, other, count] of cases)
    for (const time of ['for the first time', 'again']) {
      let changes: Change[] = []
      const held = await mostHeld(async () => (changes = await changesOf(one, other)))
      t.equal(changes.length, count, what)
      t.ok(held < 50, `a file ${what}, ${time}: ${held.toFixed(1)} ms of CPU`)
    }
})

t.test('sluice diff compares two files', async (t) => {
  const files = t.testdir({
    'old.yaml':
      'channels: { demo: { protocol: simulator, models: { demo: d } } }\nmodels: { demo: { price: free } }\nchain: [auth, quota, route, protocol-translate, usage-meter]\n',
    'new.yaml':
      'channels: { demo: { protocol: simulator, models: { demo: e } } }\nmodels: { demo: { price: free } }\nchain: [auth, quota, route, protocol-translate, usage-meter]\n'
  })
  const ran = await sluice(['diff', join(files, 'old.yaml'), join(files, 'new.yaml')])
  t.match(ran, { code: 0, out: 'channel demo: models.demo changes from "d" to "e"\n' })
  t.match(await sluice(['diff', join(files, 'old.yaml'), join(files, 'old.yaml')]), {
    out: 'Nothing changes.\n'
  })
  t.match(await sluice(['diff', join(files, 'old.yaml'), join(files, 'none.yaml')]), { code: 2 })
})
