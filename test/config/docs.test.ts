// What is generated from the schemas, and the configuration that is shipped.
import { Ajv } from 'ajv'
import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { between } from '../../config/reference/docs.ts'
import { editorSchema } from '../../config/reference/editor-schema.ts'
import { loadConfig } from '../../config/load.ts'
import { optionsTable } from '../../config/reference/table.ts'
import { plugins as shipped } from '../../plugins/index.ts'
import { plugins } from './plugins.ts'

const root = join(import.meta.dirname, '../..')
const shippedFile = join(root, 'gateway.yaml')

t.test('the shipped gateway.yaml works with nothing in the environment', (t) => {
  const { config, problems } = loadConfig(shippedFile, {
    env: {},
    plugins: shipped,
    simulatorUrl: new URL('http://127.0.0.1:1/v1')
  })
  t.same(problems, undefined)
  t.same(config?.simulated, ['demo', 'demo-anthropic', 'demo-gemini'])
  t.equal(config?.chain.length, 8)
  t.equal(config?.keys[0]?.name, 'alice-laptop')
  t.end()
})

t.test('the real channel in the shipped file works when its comments are taken off', (t) => {
  const file = join(t.testdir(), 'gateway.yaml')
  writeFileSync(file, readFileSync(shippedFile, 'utf8').replace(/^ {2}# (?=( *(gpt-5|openai|[a-z_]+):))/gm, '  '))
  const { config, problems } = loadConfig(file, {
    env: { OPENAI_API_KEY: 'sk-x' },
    plugins: shipped,
    simulatorUrl: new URL('http://127.0.0.1:1/v1')
  })
  t.same(problems, undefined)
  t.match(config?.channels.get('openai'), { credential: 'sk-x', private: false })
  t.equal(config?.models.get('gpt-5')?.prices[0]?.price.perMillion.input, 1_250_000_000n)
  t.end()
})

t.test('the example of several files works as it stands, also for editors', (t) => {
  const page = readFileSync(join(root, 'config/files/FILES.md'), 'utf8')
  const validate = new Ajv({ strict: false, allErrors: true }).compile(editorSchema(shipped))
  const folder = t.testdir({ tenants: {} })
  for (const [, name, text] of page.matchAll(/^```yaml\n# (\S+)\n([^]*?)^```/gm)) {
    writeFileSync(join(folder, name!), text!)
    t.ok(validate(parse(text!)), name!)
  }
  const { config, problems } = loadConfig(join(folder, 'gateway.yaml'), {
    env: {},
    plugins: shipped,
    simulatorUrl: new URL('http://127.0.0.1:1/v1')
  })
  t.same(problems, undefined)
  t.same([...config!.tenants.keys(), ...config!.keys.map(({ name }) => name)], ['acme', 'acme-web'])
  t.equal(config!.texts.length, 3)
  t.end()
})

t.test('the schema for editors takes what the loader takes', (t) => {
  const validate = new Ajv({ strict: false, allErrors: true }).compile(editorSchema(plugins))
  const accepts = (text: string): boolean => validate(parse(text, { merge: true }))
  const rest =
    'channels: { demo: { protocol: simulator, models: { demo: demo } } }\nmodels: { demo: { price: free } }\n'
  t.ok(
    accepts(`${rest}chain: [auth, log: { flush: 5s, level: debug }, { needy: { must: x } }]\nx-any: 5\nadmin: false`)
  )
  const variables = 'json_body: "${SIZE}", connections: "${N:-5}", on_disconnect: "${HOW}"'
  t.ok(accepts(`${rest}chain: [auth]\nlisten: { port: "\${PORT}" }\nlimits: { ${variables} }`))
  t.ok(
    accepts(`${rest.replace('free', '{ input: 1, output: "2.5", per: 1 }')}chain: [auth]\nlimits: { json_body: 1024 }`)
  )
  const refused = [
    'chain: [auht]',
    'chain: [{ auth: {}, log: {} }]',
    'chain: [log: { flush: 5 }]',
    'chain: [log: { level: loud }]',
    'chain: [needy: {}]',
    'chain: []',
    'chain: [auth]\nlisten: { port: x }',
    'chain: [auth]\nlimts: {}',
    'chain: [auth]\nlimits: { json_body: 5XB }',
    'chain: [auth]\nadmin: true'
  ]
  for (const text of refused) t.notOk(accepts(rest + text), text)
  t.match(editorSchema(plugins), { $schema: 'http://json-schema.org/draft-07/schema#', title: 'gateway.yaml' })
  t.end()
})

t.test('options become a table, nested ones below what holds them', (t) => {
  const { options, required } = plugins.get('log')!
  t.equal(
    optionsTable([{ prefix: 'log.', options, required }]),
    [
      '| key | value | default | meaning |',
      '|---|---|---|---|',
      '| `log.sink` | text | `"stdout"` | Where to. |',
      '| `log.bodies` | `true` or `false` | `false` | Bodies too. |',
      '| `log.level` | `info`, `debug` | `"info"` | How much. |',
      '| `log.flush` | duration | `"100ms"` | How often. |',
      '| `log.list` | list: text |  | Words. |',
      '| `log.nested` | map |  | More. |',
      '| `log.nested.depth` | whole number from 1 | `2` | Depth. |',
      ''
    ].join('\n')
  )
  t.match(optionsTable([{ prefix: '', ...plugins.get('needy')! }]), '| `must` | text | **required** | Needed. |')
  t.end()
})

t.test('a table is put between its marks, and only there', (t) => {
  t.equal(between('a\n<!-- x -->\nold\n<!-- /x -->\nb', 'x', 'new\n'), 'a\n<!-- x -->\nnew\n<!-- /x -->\nb')
  t.throws(() => between('a', 'x', 'new'), /has no lines "<!-- x -->" and "<!-- \/x -->"/)
  t.end()
})

t.test('npm run docs writes what is out of date, and --check names it', (t) => {
  const folder = t.testdir({ plugins: { 'OPTIONS.md': '# Plugins\n<!-- options -->\n<!-- /options -->\n' } })
  cpSync(join(root, 'config'), join(folder, 'config'), { recursive: true })
  for (const name of ['core', 'docs']) cpSync(join(root, name), join(folder, name), { recursive: true })
  for (const name of ['node_modules', 'package.json']) symlinkSync(join(root, name), join(folder, name))
  mkdirSync(join(folder, 'test/config'), { recursive: true })
  cpSync(join(root, 'test/config/plugins.ts'), join(folder, 'plugins/index.ts'))
  const run = (...args: string[]) =>
    spawnSync(process.execPath, [join(folder, 'config/reference/docs.ts'), ...args], { encoding: 'utf8' })
  const imports = readFileSync(join(folder, 'plugins/index.ts'), 'utf8')
  writeFileSync(join(folder, 'plugins/index.ts'), imports.replaceAll('../../core/', '../core/'))

  const before = run('--check')
  t.equal(before.status, 1)
  t.match(before.stderr, 'plugins/OPTIONS.md is out of date: run "npm run docs"')
  const wrote = run()
  t.equal(wrote.status, 0, wrote.stderr)
  t.match(wrote.stdout, /^wrote config\/gateway\.schema\.json$/m)
  t.match(readFileSync(join(folder, 'plugins/OPTIONS.md'), 'utf8'), '| `needy.must` |')
  t.match(readFileSync(join(folder, 'config/REFERENCE.md'), 'utf8'), '| `channels.<name>.base_url` |')
  t.match(JSON.parse(readFileSync(join(folder, 'config/gateway.schema.json'), 'utf8')), {
    properties: { chain: { type: 'array' } }
  })
  t.equal(run('--check').status, 0)
  t.equal(run().stdout, '', 'nothing is written twice')

  writeFileSync(join(folder, 'plugins/OPTIONS.md'), '# Plugins\n')
  const broken = run('--check')
  t.equal(broken.status, 1)
  t.match(broken.stderr, 'plugins/OPTIONS.md: has no lines "<!-- options -->"')
  t.end()
})
