// The project as an image and as a package: built in a clean folder, packed, installed into an empty one, with plugins
// from packages and a file in TypeScript there.
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import type { Test } from 'tap'
import { stringify } from 'yaml'
import { command, stress } from '../chaos/ends.ts'
import type { End } from '../chaos/ends.ts'
import { eventually } from '../kit/probe.ts'
import { readEvents } from '../kit/sse.ts'
import { Upstream } from '../kit/upstream.ts'
import { chatAnswer, chatEvents } from '../kit/workbench.ts'

t.setTimeout(600_000)
const root = join(import.meta.dirname, '../..')
const execute = promisify(execFile)
const folder = mkdtempSync(join(tmpdir(), 'sluice-packages-'))
/** Where the project is built: it has nothing but what the image copies. */
const clean = mkdtempSync(join(tmpdir(), 'sluice-image-'))
t.teardown(() => {
  for (const made of [folder, clean]) rmSync(made, { recursive: true, force: true })
})
const sluice = join(folder, 'node_modules/.bin/sluice')
/**
 * The test runner puts its loader in front of every Node that it sees begin, also with an environment of its own:
 * packages have none of it.
 */
const without = ['-u', 'NODE_OPTIONS', '-u', 'SLUICE_LONG']
const run = (program: string, args: readonly string[], cwd = folder): Promise<{ stdout: string; stderr: string }> =>
  execute('env', [...without, program, ...args], { cwd })

const names = ['sluice-guard', 'sluice-cache', 'sluice-ab', 'sluice-audit']

/** The packed project and the packages of this folder, installed as anybody would. */
async function install(): Promise<void> {
  await run('npm', ['pack', '--ignore-scripts', '--pack-destination', folder], clean)
  const tarball = readdirSync(folder).find((name) => name.endsWith('.tgz'))!
  writeFileSync(join(folder, 'package.json'), '{ "type": "module", "private": true }')
  for (const name of names) cpSync(join(import.meta.dirname, name), join(folder, 'packages', name), { recursive: true })
  cpSync(join(import.meta.dirname, 'mine.ts'), join(folder, 'plugins/mine.ts'))
  const packages = names.map((name) => `./packages/${name}`)
  await run('npm', [
    'install',
    '--install-links',
    '--prefer-offline',
    '--no-audit',
    '--no-fund',
    `./${tarball}`,
    ...packages
  ])
}

function configure(upstreams: Record<string, Upstream>, chain: unknown[], more: object = {}): void {
  const names = Object.keys(upstreams)
  const price = { price: { input: 1, output: 2 } }
  writeFileSync(
    join(folder, 'gateway.yaml'),
    stringify({
      listen: { port: 0 },
      admin: { port: 0 },
      store: { sqlite: './data.db', durability: 'process' },
      channels: Object.fromEntries(
        names.map((name) => [
          name,
          {
            protocol: 'openai',
            base_url: upstreams[name]!.url.href,
            private: true,
            endpoints: ['chat', 'images', 'responses'],
            models: { old: 'old', new: 'new' }
          }
        ])
      ),
      models: { old: price, new: price },
      tenants: { acme: {}, umbrella: {} },
      keys: [
        { name: 'one', key: 'sk-one-000000000000', tenant: 'acme' },
        { name: 'two', key: 'sk-two-000000000000', tenant: 'umbrella' }
      ],
      plugins: {
        guard: '@acme/sluice-guard',
        cache: '@acme/sluice-cache',
        ab: '@acme/sluice-ab',
        audit: '@acme/sluice-audit',
        mine: './plugins/mine.ts'
      },
      chain,
      ...more
    })
  )
}

const rest = [{ route: {} }, { 'protocol-translate': {} }, { 'usage-meter': {} }, { log: { sink: './requests.log' } }]

/** Starts the installed command; its addresses, of clients and of operators. */
async function startGateway(t: Test): Promise<[url: string, adminUrl: string]> {
  const gateway = spawn(
    'env',
    [...without, process.execPath, join(folder, 'node_modules/sluice/dist/core/main.js'), 'start'],
    { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] }
  )
  t.teardown(async () => {
    gateway.kill('SIGKILL')
    await once(gateway, 'exit')
  })
  let output = ''
  return new Promise<[string, string]>((resolve, reject) => {
    for (const stream of [gateway.stdout, gateway.stderr]) {
      stream.on('data', (text: Buffer) => {
        output += text.toString()
        const found = /^.*\bready\b.*https?:\/\/.*\n/m.exec(output)?.[0].match(/https?:\/\/[\w.:[\]-]+/g)
        if (found) resolve([found[0]!, found[1]!])
      })
    }
    gateway.once('exit', () => reject(new Error(output)))
  })
}

t.test('the steps of the image make a gateway in a clean folder, of nothing but what they copy', async (t) => {
  const deploy = join(root, 'config/deploy')
  const lines = readFileSync(join(deploy, 'Dockerfile'), 'utf8').split('\n')
  const ignored = readFileSync(join(deploy, 'Dockerfile.dockerignore'), 'utf8')
  for (const name of ['node_modules', '.git', '.cache', 'data']) t.match(ignored, name)
  // `npm ci` is left out, and the packages of this checkout are linked instead: what is tried is what is copied.
  const found = globSync('{core,plugins,config,test/kit,.tools}/**', { cwd: root, withFileTypes: true })
  const tops = ['package.json', 'package-lock.json', '.npmrc', 'tsconfig.json', 'tsconfig.build.json', 'LICENSE']
  const files = found.filter((one) => one.isFile()).map((one) => relative(root, join(one.parentPath, one.name)))
  for (const name of [...files, ...tops, 'gateway.yaml']) cpSync(join(root, name), join(clean, name))
  symlinkSync(join(root, 'node_modules'), join(clean, 'node_modules'))
  await run(process.execPath, ['.tools/build.ts'], clean)
  const fromBuild = lines.flatMap((line) => /^COPY --from=build (.*) \S+$/.exec(line)?.[1]!.split(' ') ?? [])
  t.ok(fromBuild.length >= 4)
  for (const path of fromBuild) t.ok(existsSync(path.replace('/build', clean)), `${path} is there to be copied`)
  const entry = JSON.parse(/^ENTRYPOINT (.*)$/m.exec(lines.join('\n'))![1]!) as string[]
  const program = entry[1]!.replace('/opt/sluice', clean)
  t.match((await run(process.execPath, [program, 'version'])).stdout, /^\d+\.\d+\.\d+\n$/)
})

t.test('packed and installed into an empty folder, everything is there', async (t) => {
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>
  }
  t.match(scripts, { build: /\.tools\/build\.ts$/, prepack: 'npm run build' }, 'it is built before it is packed')
  await install()
  t.match((await run(sluice, ['version'])).stdout, /^\d+\.\d+\.\d+/)
  writeFileSync(
    join(folder, 'tsconfig.json'),
    JSON.stringify({
      compilerOptions: {
        module: 'nodenext',
        target: 'es2024',
        lib: ['es2024', 'esnext.disposable'],
        strict: true,
        noEmit: true,
        skipLibCheck: true,
        types: ['node'],
        typeRoots: [join(root, 'node_modules/@types')]
      },
      files: ['plugins/mine.ts']
    })
  )
  const types = await run(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', '.']).catch(
    (error: { stdout: string }) => error
  )
  t.equal(types.stdout, '', 'the types of a plugin are found')
  const testing = 'import("sluice/testing").then((kit) => console.log(typeof kit.pluginContract))'
  t.equal((await run(process.execPath, ['-e', testing])).stdout.trim(), 'function', 'the kit needs no other package')
})

t.test('the console comes built', async (t) => {
  configure({ a: await Upstream.start(t) }, [{ auth: {} }, ...rest])
  const [, adminUrl] = await startGateway(t)
  const page = await (await fetch(`${adminUrl}/console/`)).text()
  const script = /src="(\/console\/main-[^"]+\.js)"/.exec(page)![1]!
  const reply = await fetch(adminUrl + script)
  t.equal(reply.headers.get('cache-control'), 'public, max-age=31536000, immutable')
  t.match(await reply.text(), /\/admin\/v1\/session/, 'it asks the admin API')
  t.equal((await fetch(`${adminUrl}/console/app/main.ts`)).status, 404, 'no sources are in the package')
})

t.test('on an older Node the published command says which one it needs, and nothing else', async (t) => {
  const older = 'Object.defineProperty(process, "versions", { value: { ...process.versions, node: "20.20.2" } })'
  const program = join(folder, 'node_modules/sluice/dist/core/bin.cjs')
  const args = ['--import', `data:text/javascript,${encodeURIComponent(older)}`, program, 'version']
  await t.rejects(run(process.execPath, args), {
    code: 1,
    stdout: '',
    stderr: /^sluice needs Node 24\.16 or later, and this is 20\.20\.2: .*\n$/
  })
  t.notMatch(readFileSync(program, 'utf8'), /=>|\$\{|\b(const|let|class)\b|import\(/, 'Node 0.10 can read it')
})

t.test('commands end, whatever the threads that compile them are at', async (t) => {
  const program = join(folder, 'node_modules/sluice/dist/core/main.js')
  const each = async (): Promise<End[]> => {
    const ends: End[] = []
    while (ends.length < 2) ends.push(await command([...stress, program], ['version'], folder))
    return ends
  }
  const ends = await Promise.all([each(), each(), each()])
  t.notOk(ends.flat().includes('stands still'), `each of six: ${ends.flat().join()}`)
})

t.test('a file that names plugins is checked as one that names none', async (t) => {
  const upstream = await Upstream.start(t)
  const check = async (): Promise<string> =>
    (await run(sluice, ['check']).catch((error: { stdout: string }) => error)).stdout
  configure({ a: upstream }, [{ auth: {} }, { mine: { limit: 2 } }, { guard: { block: ['x'] } }, ...rest])
  t.match(await check(), /is right/)
  writeFileSync(join(folder, 'none.ts'), 'export default { name: "none" }')
  writeFileSync(join(folder, 'newer.ts'), 'export default { name: "newer", [Symbol.for("sluice.plugin")]: 99 }')
  writeFileSync(join(folder, 'broken.ts'), 'throw new Error("not today")')
  mkdirSync(join(folder, 'scripts'), { recursive: true })
  writeFileSync(join(folder, 'scripts/package.json'), '{ "type": "commonjs" }')
  cpSync(join(import.meta.dirname, 'mine.ts'), join(folder, 'scripts/mine.ts'))
  writeFileSync(join(folder, 'scripts/exports.js'), 'export default {}')
  const sources = {
    gone: '@acme/gone',
    lost: './lost.ts',
    route: './plugins/mine.ts',
    none: './none.ts',
    newer: './newer.ts',
    broken: './broken.ts',
    script: './scripts/mine.ts',
    exporting: './scripts/exports.js',
    mine: './plugins/mine.ts',
    guard: '@acme/sluice-guard'
  }
  configure({ a: upstream }, [{ auth: {} }, { mine: { limt: 2 } }, { gaurd: {} }, { gone: {} }, ...rest], {
    plugins: sources
  })
  const problems = await check()
  for (const problem of [
    /gateway\.yaml:\d+:\d+ chain\[1\]\.mine\.limt: unknown key.*limit/,
    /gateway\.yaml:\d+:\d+ .*no plugin "?gaurd"?.*guard/,
    /gateway\.yaml:\d+:\d+ plugins\.gone: cannot be loaded from @acme\/gone: .*install it/,
    /plugins\.lost: cannot be loaded from .*lost\.ts: there is no such file/,
    /plugins\.route: a plugin of that name is shipped/,
    /plugins\.none: .*is no plugin.*definePlugin/,
    /plugins\.newer: .*version 99 of the contract.*update sluice/,
    /plugins\.broken: cannot be loaded from .*: not today/,
    /plugins\.script: cannot be loaded from .*put "type": "module" into the package\.json/,
    /plugins\.exporting: cannot be loaded from .*put "type": "module" into the package\.json/
  ])
    t.match(problems, problem)
  t.equal(problems.trim().split('\n').length, 10, 'and no more than is wrong')
  configure({ a: upstream }, [{ mine: {} }, { auth: {} }, ...rest])
  t.match(await check(), /mine needs caller: put it below auth/)
  configure({ a: upstream }, [{ auth: {} }, ...rest])
  const listed = await run(sluice, ['plugins'])
  t.match(listed.stdout, /^mine \(of this configuration\): Limits how many[^]*`limit`/m)
  const schema = await run(sluice, ['plugins', '--schema'])
  t.ok(
    JSON.stringify(JSON.parse(schema.stdout)).includes('Words that no prompt'),
    'and the schema for editors knows them'
  )
})

t.test('a guardrail, a cache, an experiment and a plugin in TypeScript do what they are for', async (t) => {
  const [a, b] = [await Upstream.start(t), await Upstream.start(t)]
  const chain = [
    { auth: {} },
    { mine: { limit: 4 } },
    { guard: { block: ['forbidden'] } },
    { cache: {} },
    { ab: { model: 'old', other: 'new', share: 1, prefer: ['b', 'a'] } },
    ...rest
  ]
  configure({ a, b }, chain)
  const [url, adminUrl] = await startGateway(t)
  const ask = async (
    content: string,
    stream: boolean,
    key = 'sk-one-000000000000'
  ): Promise<{ status: number; headers: Headers; text: string }> => {
    const reply = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'old', stream, messages: [{ role: 'user', content }] })
    })
    return { status: reply.status, headers: reply.headers, text: await reply.text() }
  }
  const answerOf = (text: string): object => ({
    ...chatAnswer(),
    choices: [{ index: 0, message: { role: 'assistant', content: text }, finish_reason: 'stop' }]
  })
  for (const stream of [false, true]) {
    const say = (text: string): unknown => {
      const chunk = (delta: object, finish: string | null = null): object => ({
        ...chatEvents()[0],
        choices: [{ index: 0, delta, finish_reason: finish }]
      })
      return stream
        ? b.sse([
            chunk({ role: 'assistant', content: '' }),
            chunk({ content: text.slice(0, 12) }),
            chunk({ content: text.slice(12) }),
            chunk({}, 'stop')
          ])
        : b.json(answerOf(text))
    }
    const contentOf = (text: string): string => {
      if (!stream) return JSON.parse(text).choices[0].message.content
      return readEvents(text)
        .flatMap(({ data }) => (data === '[DONE]' ? [] : [JSON.parse(data).choices[0].delta.content ?? '']))
        .join('')
    }
    say('write to me@acme.com now')
    const question = `my mail is you@acme.com, ${stream}`
    const first = await ask(question, stream)
    t.equal(contentOf(first.text), 'write to [mail] now', stream ? 'in a stream' : 'whole')
    t.match(first.text, '"model":"old"', 'the client sees the model that it asked for')
    t.equal(first.headers.get('x-in-flight'), '1')
    const sent = b.requests.at(-1)!.json()
    t.match([sent.model, sent.messages[0].content], ['new', `my mail is [mail], ${stream}`])
    const seen = b.requests.length
    const again = await ask(question, stream)
    t.match(
      [again.headers.get('x-cache'), contentOf(again.text), b.requests.length],
      ['hit', 'write to [mail] now', seen],
      'a hit is seen by the guard as well'
    )
    say('hello, umbrella!')
    t.equal(
      contentOf((await ask(question, stream, 'sk-two-000000000000')).text),
      'hello, umbrella!',
      'another tenant has nothing of it'
    )
    say('this is forbidden')
    const blocked = await ask(`say it, ${stream}`, stream)
    t.match(blocked.text, 'content_blocked')
    t.notMatch(blocked.text, 'this is')
    t.match(await ask('say forbidden', stream), { status: 403 })
  }
  t.equal(a.requests.length, 0, 'the preferred channel was tried first')
  const { data } = (await (await fetch(`${adminUrl}/admin/v1/requests?limit=50`)).json()) as {
    data: Record<string, unknown>[]
  }
  t.ok(data.every((record) => record['model'] === 'new' && record['requested_model'] === 'old'))
  t.ok(readdirSync(folder).includes('requests.log'), 'a relative path is relative to gateway.yaml')

  // A reload with a plugin that does not load changes nothing.
  writeFileSync(join(folder, 'plugins/mine.ts'), 'throw new Error("not today")')
  const reload = async (): Promise<any> => (await fetch(`${adminUrl}/admin/v1/reload`, { method: 'POST' })).json()
  t.match(JSON.stringify(await reload()), /not today/)
  b.json(answerOf('still here'))
  t.match(await ask('hello?', false), { status: 200, text: /still here/ })
  cpSync(join(import.meta.dirname, 'mine.ts'), join(folder, 'plugins/mine.ts'))
  t.match(await reload(), { ok: true })
})

t.test('a log from outside has a line for each request, and one for work when that has ended', async (t) => {
  const upstream = await Upstream.start(t)
  const chain = [{ auth: {} }, { quota: {} }, { route: {} }, { 'protocol-translate': {} }, { 'usage-meter': {} }]
  configure({ a: upstream }, [...chain, { audit: { file: './audit.log' } }])
  const [url] = await startGateway(t)
  const send = async (path: string, body: object): Promise<any> =>
    (
      await fetch(`${url}${path}`, {
        method: 'POST',
        headers: { authorization: 'Bearer sk-one-000000000000', 'content-type': 'application/json' },
        body: JSON.stringify(body)
      })
    ).json()
  const lines = (): Record<string, unknown>[] =>
    readFileSync(join(folder, 'audit.log'), 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
  upstream.json(chatAnswer())
  await send('/v1/chat/completions', { model: 'old', messages: [{ role: 'user', content: 'Hello' }] })
  await eventually(() => lines().length === 1)
  const [chat] = lines()
  t.match(chat, { endpoint: 'chat', outcome: 'completed', early: false })
  t.ok(BigInt(chat!['held_nano'] as string) > BigInt(chat!['cost_nano'] as string))
  upstream.json({ data: [{ b64_json: 'AAAA' }], usage: { input_tokens: 5, output_tokens: 7, total_tokens: 12 } })
  const { task_id } = await send('/v1/images/generations/async', { model: 'old', prompt: 'A boat' })
  t.type(task_id, 'string')
  await eventually(() => lines().length === 2)
  t.match(lines()[1], { early: true, outcome: 'completed', cost_nano: '19000' })

  const response = (status: string, more: object = {}): object => ({
    id: 'resp_1',
    object: 'response',
    status,
    background: true,
    model: 'old',
    output: [],
    ...more
  })
  upstream.json(response('in_progress'))
  upstream.json(response('completed', { usage: { input_tokens: 5, output_tokens: 7, total_tokens: 12 } }))
  await send('/v1/responses', { model: 'old', input: 'Hello', background: true })
  await eventually(() => lines().length === 3)
  t.match(lines()[2], { concluded: true, outcome: 'completed', cost_nano: '19000' })
})
