// Files that gateway.yaml includes: what they say together, and every problem with its place in the right file.
import { createHash } from 'node:crypto'
import { execFileSync } from 'node:child_process'
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { readAddress, readListener } from '../../config/address.ts'
import { loadConfig } from '../../config/load.ts'
import type { Loaded } from '../../config/load.ts'
import type { Config } from '../../core/catalogue/settings.ts'
import { makeCertificate } from '../kit/certificate.ts'
import { plugins } from './plugins.ts'

/** Files by their path; text, or bytes. */
type Tree = Readonly<Record<string, string | Buffer>>

const channels = 'channels: { demo: { protocol: simulator, models: { demo: demo } } }\n'
const models = 'models: { demo: { price: free } }\n'
const chain = 'chain: [auth]\n'
const least = channels + models + chain
const including = (...names: string[]): string => `include: ${JSON.stringify(names)}\n`

/** Writes files into a new folder; returns it. */
function plant(t: Test, tree: Tree): string {
  const folder = t.testdir()
  for (const [path, content] of Object.entries(tree)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), content)
  }
  return folder
}

/** Loads the gateway.yaml of a folder. */
function load(folder: string, env: Record<string, string> = {}): Loaded {
  return loadConfig(join(folder, 'gateway.yaml'), { env, plugins, simulatorUrl: new URL('http://127.0.0.1:1/v1') })
}

function loaded(folder: string, env: Record<string, string> = {}): Config {
  const { config, problems } = load(folder, env)
  if (!config) throw new Error(problems.map(({ place, message }) => `${place} ${message}`).join('\n'))
  return config
}

/** The problems of files, without the folder. */
function problems(t: Test, tree: Tree, env: Record<string, string> = {}): string[] {
  return problemsIn(plant(t, tree), env)
}

function problemsIn(folder: string, env: Record<string, string> = {}): string[] {
  return (load(folder, env).problems ?? []).map(({ place, message }) =>
    `${place} ${message}`.replaceAll(`${folder}/`, '')
  )
}

t.test('files and folders are joined as if they were one file', (t) => {
  const folder = plant(t, {
    'gateway.yaml': `${including('channels.yaml', './tenants/', 'more')}${models}${chain}listen: { port: 1 }\n`,
    'channels.yaml': channels,
    'tenants/b.yml': 'tenants: { b: {} }\nkeys: [{ name: b, key: sk-bbb, tenant: b }]\n',
    'tenants/a.yaml':
      'tenants: { a: {} }\nkeys:\n- { name: a, key: sk-aaa, tenant: a }\n- { name: a2, key: sk-aaa2, tenant: b }\n',
    'tenants/.hidden.yaml': 'nonsense',
    'tenants/a.yaml.bak': 'nonsense',
    'tenants/below/c.yaml': 'nonsense',
    'more/nested.yaml': 'include: [deep/limits.yaml]\nx-note: any\nmodels: # all are commented out\n',
    'more/deep/limits.yaml': 'limits: { connections: 7 }\nx-note: another\n'
  })
  const config = loaded(folder)
  t.same([...config.channels.keys()], ['demo'])
  t.same([...config.tenants.keys()], ['a', 'b'], 'a folder is read in the order of names')
  t.same(
    config.keys.map(({ name, place }) => `${name} ${place.replace(`${folder}/`, '')}`),
    ['a tenants/a.yaml:3:3', 'a2 tenants/a.yaml:4:3', 'b tenants/b.yml:2:8']
  )
  t.equal(config.settings.limits.connections, 7)
  t.equal(config.settings.listen.port, 1)
  t.same(
    config.texts.map(({ name }) => name),
    ['gateway.yaml', 'channels.yaml', 'tenants/a.yaml', 'tenants/b.yml', 'more/nested.yaml', 'more/deep/limits.yaml']
  )
  t.same(config.folders, ['tenants', 'more'])
  t.same([...config.named], [], 'included files are no files that the configuration names')
  t.notMatch(JSON.stringify(config.redacted), /sk-aaa|sk-bbb|x-note/)
  t.match(config.redacted, { include: ['channels.yaml', './tenants/', 'more'], tenants: { a: {}, b: {} } })
  t.end()
})

t.test('the hash is that of the file, or of what sha256sum says of all files', (t) => {
  const folder = plant(t, {
    'gateway.yaml': including('parts') + least,
    'parts/a.yaml': 'tenants: { a: {} }\n',
    'parts/b.yaml': 'tenants: { b: {} }\n'
  })
  const sums = execFileSync('sha256sum', ['gateway.yaml', 'parts/a.yaml', 'parts/b.yaml'], { cwd: folder })
  t.equal(loaded(folder).hash, createHash('sha256').update(sums).digest('hex'))
  writeFileSync(join(folder, 'gateway.yaml'), least)
  t.equal(loaded(folder).hash, createHash('sha256').update(least).digest('hex'))
  t.end()
})

t.test('paths are relative to the file that names them', (t) => {
  const {
    pem: { cert, key }
  } = makeCertificate(t)
  const folder = plant(t, {
    'gateway.yaml': `${including('net/listen.yaml', 'net/chain.yaml')}${channels}${models}`,
    'net/listen.yaml': 'listen: { tls: { cert: ./cert.pem, key: tls/key.pem } }\nstore: { durability: process }\n',
    'net/cert.pem': cert,
    'net/tls/key.pem': key,
    'net/chain.yaml': 'chain: [auth, { log: { sink: ./requests.log } }]\n'
  })
  const config = loaded(folder)
  t.equal(config.settings.listen.tls?.cert, cert)
  t.equal(config.settings.store.sqlite, join(folder, 'data/sluice.db'), 'a default is relative to gateway.yaml')
  t.same([...config.named.keys()], [join(folder, 'net/cert.pem'), join(folder, 'net/tls/key.pem')])
  writeFileSync(join(folder, 'net/listen.yaml'), 'store: { sqlite: here.db }\n')
  t.equal(loaded(folder).settings.store.sqlite, join(folder, 'net/here.db'))
  rmSync(join(folder, 'net/listen.yaml'))
  t.end()
})

t.test('variables hold in included files and in their names', (t) => {
  const folder = plant(t, {
    'gateway.yaml': `include: ["\${STAGE}/\${FILE:-main}.yaml"]\n${least}`,
    'live/main.yaml': 'listen: { port: "${PORT}" }\n'
  })
  t.equal(loaded(folder, { STAGE: 'live', PORT: '1234' }).settings.listen.port, 1234)
  t.same(problemsIn(folder, { STAGE: 'live' }), [
    'live/main.yaml:1:17 the environment variable PORT is not set: set it, or give a default with ${PORT:-default}'
  ])
  t.same(
    problemsIn(folder),
    ['gateway.yaml:1:11 the environment variable STAGE is not set: set it, or give a default with ${STAGE:-default}'],
    'and nothing of what is missing because of that'
  )
  t.end()
})

t.test('a name or a section in two files is a problem that names both places', (t) => {
  t.same(
    problems(t, {
      'gateway.yaml': `${including('a.yaml', 'b.yaml')}${least}listen: { port: 1 }\ntenants: { acme: {} }\n`,
      'a.yaml': `listen: { host: 0.0.0.0 }\n${chain}keys: [{ name: k, key: sk-1, tenant: acme }]\nchannels:\n  demo: {}\n`,
      'b.yaml':
        'tenants: { acme: {} }\nmodels:\n  "demo": { price: free }\nkeys:\n- { name: other, key: sk-2, tenant: acme }\n- { name: k, key: sk-1, tenant: acne }\n'
    }),
    [
      'a.yaml:1:1 listen: stands in gateway.yaml:5:1 already: this section stands in one file',
      'a.yaml:2:1 chain: stands in gateway.yaml:4:1 already: this section stands in one file',
      'a.yaml:5:3 channels.demo: stands in gateway.yaml:2:13 already: a name stands in one file',
      'b.yaml:1:12 tenants.acme: stands in gateway.yaml:6:12 already: a name stands in one file',
      'b.yaml:3:3 models.demo: stands in gateway.yaml:3:11 already: a name stands in one file',
      'b.yaml:6:11 keys[1].name: the key at a.yaml:3:8 has this name already',
      'b.yaml:6:14 keys[1].key: the key "k" has the same secret',
      'b.yaml:6:33 keys[1].tenant: no tenant "acne", did you mean "acme"?'
    ]
  )
  t.end()
})

t.test('problems and warnings of every kind stand at their place in the right file', (t) => {
  t.same(
    problems(t, {
      'gateway.yaml': including('a.yaml') + models,
      'a.yaml': 'channels: { demo: { protocol: simulator, models: { demo: demo, gone: gone } } }\nlisten: { prot: 1 }\n'
    }),
    [
      'gateway.yaml:1:1 "chain" is missing',
      'a.yaml:1:64 channels.demo.models.gone: not among the models: known are demo',
      'a.yaml:2:11 listen.prot: unknown key, did you mean "port"?'
    ]
  )
  t.same(problems(t, { 'gateway.yaml': including('a.yaml') + least, 'a.yaml': 'plugins: {}\nkeys: *far\n' }), [
    'a.yaml:2:7 there is no such anchor above: put a text that begins with * in quotes'
  ])
  t.same(
    problems(t, { 'gateway.yaml': `x-a: &far [1]\n${including('a.yaml')}${least}`, 'a.yaml': 'keys: *far\n' }),
    ['a.yaml:1:7 there is no such anchor above: put a text that begins with * in quotes'],
    'anchors are known in their own file only'
  )
  t.same(problems(t, { 'gateway.yaml': including('a.yaml') + least, 'a.yaml': 'channels: [demo]\n' }), [
    'a.yaml:1:11 channels: must be a map, not a list'
  ])
  const folder = plant(t, {
    'gateway.yaml': including('keys.yaml', 'none/') + least,
    'keys.yaml': 'tenants: { acme: {} }\nkeys: [{ name: a, key: sk-clear, tenant: acme }]\n',
    'none/readme.txt': ''
  })
  t.match(
    loaded(folder).warnings.map(({ place, message }) => `${place} ${message}`.replaceAll(`${folder}/`, '')),
    [
      'gateway.yaml:1:23 include[1]: none has no file that ends in .yaml or .yml',
      /^keys\.yaml:2:24 keys\[0\]\.key: a secret in clear/
    ]
  )
  t.end()
})

t.test('what cannot be included says why at the place that includes it', (t) => {
  const cases: [Tree, string[]][] = [
    [
      { 'gateway.yaml': including('gone.yaml') },
      ['gateway.yaml:1:11 include[0]: gone.yaml: there is no such file or folder']
    ],
    [
      { 'gateway.yaml': including('teams/*.yaml') },
      [
        'gateway.yaml:1:11 include[0]: teams/*.yaml: there is no such file or folder: * stands for nothing here, name the folder for all its YAML files'
      ]
    ],
    [
      { 'gateway.yaml': including('all'), 'all/a.yaml/b.yaml': '' },
      ['gateway.yaml:1:11 include[0]: all/a.yaml: is not a file']
    ],
    [
      { 'gateway.yaml': including('a.yaml', './a.yaml'), 'a.yaml': least },
      ['gateway.yaml:1:20 include[1]: a.yaml is included in gateway.yaml:1:11 already: include it once']
    ],
    [
      {
        'gateway.yaml': including('sub/a.yaml'),
        'sub/a.yaml': 'include: [b.yaml]',
        'sub/b.yaml': 'include: [../gateway.yaml]'
      },
      [
        'sub/b.yaml:1:11 include[0]: a file cannot include itself: gateway.yaml includes sub/a.yaml includes sub/b.yaml includes gateway.yaml'
      ]
    ],
    [
      { 'gateway.yaml': including('.') },
      ['gateway.yaml:1:11 include[0]: a file cannot include itself: gateway.yaml includes gateway.yaml']
    ],
    [{ 'gateway.yaml': including('a.yaml'), 'a.yaml': '# nothing\n' }, ['a.yaml:1:1 the file is empty']],
    [
      { 'gateway.yaml': including('a.yaml'), 'a.yaml': Buffer.from('x: 1\ny: \xff\n', 'latin1') },
      ['a.yaml:2:4 a character that is not in UTF-8: save the file in that encoding']
    ],
    [
      { 'gateway.yaml': including('a.yaml'), 'a.yaml': 'x: \0\n' },
      ['a.yaml:1:4 a NUL byte: the file must be text in UTF-8']
    ],
    [{ 'gateway.yaml': 'include: a.yaml\n' }, ['gateway.yaml:1:10 include: must be a list, not "a.yaml"']],
    [
      { 'gateway.yaml': including('a.yaml'), 'a.yaml': 'include: [{ b: c }]\n' },
      ['a.yaml:1:11 include[0]: must be text, not a map']
    ],
    [{ 'gateway.yaml': including('') }, ['gateway.yaml:1:11 include[0]: must not be empty']],
    [
      { 'gateway.yaml': including('a\nb.yaml') },
      ['gateway.yaml:1:11 include[0]: "a\\nb.yaml" has a character that no name of an included file may have']
    ],
    [
      { 'gateway.yaml': including('all'), 'all/a\u202elmay.yaml': '' },
      [
        'gateway.yaml:1:11 include[0]: in all, "a\u202elmay.yaml" has a character that no name of an included file may have'
      ]
    ],
    [
      { 'gateway.yaml': including('a.yaml', 'b.yaml'), 'a.yaml': 'x: [\n', 'b.yaml': 'y: "\n' },
      [
        'a.yaml:2:1 a { or [ above is not closed, or what stands in it is not indented',
        'b.yaml:2:1 missing closing "quote: check quotes, commas and colons here and in the line above'
      ]
    ]
  ]
  for (const [tree, expected] of cases) t.same(problems(t, tree), expected)
  t.end()
})

t.test('includes within includes end, however they are made', (t) => {
  const folder = plant(
    t,
    Object.fromEntries(
      Array.from({ length: 20 }, (_, n) => [n === 0 ? 'gateway.yaml' : `${n}.yaml`, including(`${n + 1}.yaml`)])
    )
  )
  t.same(problemsIn(folder), ['16.yaml:1:11 include[0]: files include files more than 16 deep'])
  // Two names of one file are one file, and links lead wherever they lead.
  const linked = plant(t, {
    'gateway.yaml': including('a.yaml', 'b.yaml') + least,
    'far/real.yaml': 'tenants: { acme: {} }'
  })
  symlinkSync('far/real.yaml', join(linked, 'a.yaml'))
  symlinkSync('far/real.yaml', join(linked, 'b.yaml'))
  t.match(problemsIn(linked), [/^gateway\.yaml:1:20 include\[1\]: b\.yaml is included in gateway\.yaml:1:11 already/])
  writeFileSync(join(linked, 'gateway.yaml'), including('a.yaml') + least)
  t.same([...loaded(linked).tenants.keys()], ['acme'])
  t.end()
})

t.test('bombs of aliases are refused in all files together', (t) => {
  const part = (name: string): string => `x-${name}: &a [${'0,'.repeat(999)}0]\nx-many: [${'*a,'.repeat(59)}*a]\n`
  t.match(problems(t, { 'gateway.yaml': including('a.yaml') + least + part('a'), 'a.yaml': part('b') }), [
    /^a\.yaml:\d+:\d+ aliases add more than 100000 values to the configuration$/
  ])
  t.end()
})

t.test('the address of a gateway is found also when a file elsewhere is damaged', (t) => {
  const admin = 'admin: { port: 1 }\n'
  const at = (tree: Tree): unknown => readAddress(join(plant(t, tree), 'gateway.yaml'), {})?.settings.admin
  t.match(at({ 'gateway.yaml': including('a.yaml'), 'a.yaml': admin }), { port: 1 })
  t.match(at({ 'gateway.yaml': `${including('a.yaml')}${admin}store: {}\n`, 'a.yaml': 'x: [' }), { port: 1 })
  t.match(at({ 'gateway.yaml': including('a.yaml'), 'a.yaml': 'x: [' }), { port: 9090 })
  t.equal(at({ 'gateway.yaml': including('a.yaml') + admin, 'a.yaml': admin }), undefined)
  const listener = (tree: Tree): unknown => readListener(join(plant(t, tree), 'gateway.yaml'), {})
  t.match(listener({ 'gateway.yaml': including('a.yaml'), 'a.yaml': admin }), { port: 1 })
  t.equal(listener({ 'gateway.yaml': including('a.yaml'), 'a.yaml': 'x: [' }), undefined, 'no token goes to a guess')
  t.end()
})

t.test('a thousand files are one configuration, and no number of them is read without end', (t) => {
  const tenant = (n: number): [string, string] => [`many/t${n}.yaml`, `tenants: { t${n}: { models: ["*"] } }\n`]
  const folder = plant(t, {
    'gateway.yaml': including('many') + least,
    ...Object.fromEntries(Array.from({ length: 1000 }, (_, n) => tenant(n)))
  })
  t.equal(loaded(folder).tenants.size, 1000)
  const large = `x-large: "${'x'.repeat(1_000_000)}"\n`
  for (let n = 0; n < 40; n++) writeFileSync(join(folder, `many/t${n}.yaml`), large)
  t.match(problemsIn(folder), [
    /^gateway\.yaml:1:11 include\[0\]: with many\/t\d+\.yaml there are more than 10000 files/
  ])
  t.end()
})

t.test('a pipe in an included folder stops nothing', (t) => {
  const folder = plant(t, { 'gateway.yaml': including('all') + least, 'all/a.yaml': 'tenants: {}\n' })
  execFileSync('mkfifo', [join(folder, 'all/b.yaml')])
  t.same(problemsIn(folder), ['gateway.yaml:1:11 include[0]: all/b.yaml: is not a file'])
  t.end()
})
