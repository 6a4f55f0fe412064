// The blocks of README.md and of the pages in docs, as their readers use them: what is for gateway.yaml is checked in
// it, lines for a shell run against the gateway that the shipped file describes, and commands are known.
// docs/ENDPOINTS.md has readme.test.ts.
import { execFile } from 'node:child_process'
import { globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { parse, stringify } from 'yaml'
import { commands } from '../../core/commands/all.ts'
import { spawnGateway } from '../kit/gateway.ts'
import { sluice, sluiceEach } from '../kit/command.ts'

t.setTimeout(600_000)
const root = join(import.meta.dirname, '../..')
const run = promisify(execFile)

/** Lines of a shell that cannot run here, and why. */
const unrunnable: readonly (readonly [page: string, line: RegExp, why: string])[] = [
  ['README.md', /^npm start/, 'starts the gateway that runs here already'],
  ['README.md', /^npm test/, 'runs this test'],
  ['docs/MOVING.md', /-- import /, 'needs what other gateways have: test/core/commands-import'],
  ['docs/MOVING.md', /-- check$/, 'checks what was imported: test/core/commands-import'],
  ['docs/CLIENTS.md', /^gemini -m demo/, 'a vendor’s program, which test/agents runs']
]
/** Blocks in other languages, and what runs or reads them. */
const elsewhere: Readonly<Record<string, string>> = {
  ts: 'SDKs: test/e2e/clients',
  python: 'SDKs: test/e2e/python',
  toml: 'settings of codex: test/agents',
  json: 'settings of opencode: test/agents',
  html: 'a page for a browser: test/e2e/realtime',
  ini: 'units of systemd: test/e2e/deploy, test/core/program/sockets'
}

interface Block {
  readonly page: string
  readonly language: string
  readonly text: string
}

const pages = ['README.md', ...globSync('docs/*.md', { cwd: root }).filter((page) => !page.endsWith('ENDPOINTS.md'))]
const blocks: readonly Block[] = pages.flatMap((page) =>
  [...readFileSync(join(root, page), 'utf8').matchAll(/^ *```(\w*)\n(.*?)^ *```$/gms)].map(([, language, text]) => ({
    page,
    language: language!,
    text: text!
  }))
)

t.test('every block is of a language that something runs or reads', async (t) => {
  t.ok(blocks.length > 10)
  for (const { page, language } of blocks)
    t.ok(['sh', 'yaml', ...Object.keys(elsewhere)].includes(language), `${page}: ${language}`)
})

/** What a reader has who tries a block: the shipped file, and the block in it. Dots stand for what is one’s own. */
function completed(text: string, secret: string): string {
  const filled = text
    .replaceAll('{ … }', '{ demo: demo }')
    .replaceAll('"https://…"', '"https://models.example.com"')
    .replaceAll(/\/run\/secrets\/\w+/g, secret)
  const base = parse(readFileSync(join(root, 'gateway.yaml'), 'utf8'))
  for (const [section, value] of Object.entries(parse(filled) as Record<string, object>))
    // A store is in one place: another one takes that of the shipped file.
    base[section] = Array.isArray(value) || section === 'store' ? value : { ...base[section], ...value }
  // A model is served by some channel, and a channel has models that are described.
  for (const { models = {} } of Object.values(base.channels as Record<string, { models?: object }>))
    for (const name of Object.keys(models)) base.models[name] ??= { price: 'free' }
  return stringify(base)
}

const databases = { DATABASE_URL: 'postgres://sluice:b@db.internal/sluice', REDIS_URL: 'rediss://cache.internal' }

t.test('what is for gateway.yaml is good in it', async (t) => {
  const folder = t.testdir({ secret: 'sk-one' })
  const found = blocks.filter(({ language }) => language === 'yaml')
  t.ok(found.length >= 3)
  const files = found.map(({ text }, at) => {
    const file = join(folder, `${at}.yaml`)
    writeFileSync(file, completed(text, join(folder, 'secret')))
    return file
  })
  const env = { OPENAI_API_KEY: 'a', OPENAI_KEY_A: 'd', GROQ_API_KEY: 'b', CLIENT_SECRET: 'c', ...databases }
  const ended = await sluiceEach(
    files.map((file) => ['check', '--config', file]),
    { cwd: folder, env }
  )
  for (const [at, { code, out, err }] of ended.entries()) t.equal(code, 0, `${found[at]!.page}: ${out}${err}`)
})

t.test('lines for a shell run, but for those that are named with the reason', async (t) => {
  const folder = t.testdir({ bin: {} })
  const shipped = readFileSync(join(root, 'gateway.yaml'), 'utf8').replace('port: 8080', 'port: 0')
  const settings = shipped.replace('./data/sluice.db', join(folder, 'sluice.db'))
  const running = await spawnGateway(t, settings.replace('port: 9090', 'port: 0'))
  // Commands find the gateway by its file.
  const asking = join(folder, 'asking.yaml')
  writeFileSync(asking, settings.replace('port: 9090', `port: ${new URL(running.adminUrl).port}`))
  mkdirSync(join(folder, 'bin'), { recursive: true })
  const command = `#!/bin/sh\nexec '${process.execPath}' '${join(root, 'core/main.ts')}' "$@" --config '${asking}'\n`
  writeFileSync(join(folder, 'bin/sluice'), command, { mode: 0o755 })
  const env = { ...process.env, PATH: `${join(folder, 'bin')}:${process.env['PATH']}` }
  const used = new Set<RegExp>()
  let ran = 0
  for (const { page, text } of blocks.filter(({ language }) => language === 'sh')) {
    // What stands alone in a line that cannot run is left out; what a line sets is there for the next.
    const lines = text.replaceAll('\\\n', '').split('\n')
    const kept = lines.filter((line) => {
      const [, known] = unrunnable.find(([where, pattern]) => where === page && pattern.test(line)) ?? []
      if (known) used.add(known)
      return !known && line.trim() !== '' && !line.trim().startsWith('#')
    })
    if (kept.length === 0) continue
    const script = kept
      .join('\n')
      .replaceAll('http://127.0.0.1:8080', running.url)
      .replaceAll('http://127.0.0.1:9090', running.adminUrl)
      .replaceAll(/\bcurl\b/g, 'curl --fail-with-body --silent --show-error')
    const { stdout, stderr, code } = await run('sh', ['-eu', '-c', script], { cwd: folder, env }).then(
      (done) => ({ ...done, code: 0 }),
      (error: { stdout: string; stderr: string; code: number }) => error
    )
    t.equal(code, 0, `${page}: ${script}\n${stdout}${stderr}`)
    ran += kept.length
  }
  t.ok(ran >= 8)
  t.equal(used.size, unrunnable.length, 'nothing is named that is not there')
})

t.test('commands in the text are those of the program, with its options', async (t) => {
  const { out } = await sluice(['help', '--json'])
  const known = JSON.parse(out).commands as { name: string; operands: string[]; options: { name: string }[] }[]
  t.equal(known.length, commands.length)
  let seen = 0
  for (const page of pages) {
    const text = readFileSync(join(root, page), 'utf8').replaceAll(/```.*?```/gs, '')
    for (const [quoted, words] of text.matchAll(/`(?:npm run -s sluice -- |sluice )([^`]+)`/g)) {
      seen++
      const [first = ''] = words!.split(/ (?=--|[A-Z/[])/)
      // A group stands for its commands: `keys create \| list \| change`.
      const [head = '', ...rest] = first.split(String.raw` \| `)
      const group = head.split(' ')[0]!
      const names = [head, ...rest.map((word) => `${group} ${word}`)]
      for (const name of names) {
        const isAside = ['help', 'version'].includes(name)
        const isGroup = known.some((one) => one.name.startsWith(`${name} `))
        // What follows a command that takes operands is one of them.
        const command = known.find(
          (one) => one.name === name || (one.operands.length > 0 && name.startsWith(`${one.name} `))
        )
        t.ok(command ?? (isAside || isGroup), `${page}: ${quoted}`)
        for (const [, option] of words!.matchAll(/ --([\w-]+)/g))
          t.ok(
            command?.options.some((one) => one.name.replace(/^--/, '') === option),
            `${page}: ${quoted} --${option}`
          )
      }
    }
  }
  t.ok(seen > 15)
})
