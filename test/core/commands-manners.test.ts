// What all commands have in common: JSON for programs, examples, exit codes, completion, and what a terminal gets.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { commands } from '../../core/commands/all.ts'
import { examples } from '../../core/commands/command/examples.ts'
import { exitCodes } from '../../core/telling/exits.ts'
import { progressLine } from '../../core/commands/output/progress-line.ts'
import { openDatabase } from '../../core/store/embedded/files/sqlite.ts'
import { openStore } from '../../core/store/embedded/store.ts'
import { Disk, noDisk } from '../chaos/disk.ts'
import { sluice, sluiceEach } from '../kit/command.ts'
import { postgresMissing, sharedPostgres } from '../kit/postgres.ts'
import { gateway } from '../kit/gateway.ts'
import { reserve, scope, settle } from './store/embedded/sample.ts'

t.setTimeout(600_000)

const root = join(import.meta.dirname, '..', '..')
const main = join(root, 'core/main.ts')

const words = (line: string): string[] =>
  Array.from(line.matchAll(/"([^"]*)"|(\S+)/g), ([, inner, word]) => inner ?? word!)

t.test('each command has examples, which it reads, and shows them in its help', async (t) => {
  t.same(
    Object.keys(examples).sort(),
    commands.map(({ name }) => name).sort(),
    'no command is without them, and no example without a command'
  )
  for (const command of commands) {
    for (const line of examples[command.name] ?? []) {
      const own = command.name.split(' ')
      const given = words(line)
      t.same(given.slice(0, own.length), own, line)
      t.doesNotThrow(() => command.check(given.slice(own.length)), line)
    }
  }
  const [all, one, data, version] = await sluiceEach([
    ['help'],
    ['help', 'ledger', 'restore'],
    ['help', '--json'],
    ['version', '--json']
  ])
  for (const { name } of commands) t.match(all!.out, `\n  sluice ${name} `, name)
  t.match(one!.out, /\nExamples\n {2}sluice ledger restore \/backups\/monday\.db --dry-run\n/)
  const shown = JSON.parse(data!.out) as {
    commands: { name: string; examples: string[]; options: { name: string }[] }[]
  }
  t.same(
    shown.commands.map(({ name }) => name),
    commands.map(({ name }) => name)
  )
  for (const { name, examples: some, options } of shown.commands) {
    t.ok(some.length > 0, name)
    t.ok(
      options.some((option) => option.name === '--json'),
      `${name} has --json`
    )
  }
  t.match(JSON.parse(version!.out), { version: /^\d+\.\d+\.\d+/ })
})

t.test('each command has JSON alone on standard output when it is told --json', async (t) => {
  const folder = t.testdir()
  const db = join(folder, 'sluice.db')
  const overrides = { store: { sqlite: db, durability: 'process' } }
  const served = await gateway(t, overrides)
  const { file } = served
  // The port of the admin listener stands in the file, so that commands find it.
  const upstreamless = { ...overrides, admin: { port: Number(new URL(served.adminUrl).port) } }
  t.equal((await served.chat({ model: 'demo' })).status, 200)
  const id = (await served.record(await served.chat({ model: 'demo' }))).request_id
  served.configure({ ...overrides, limits: { client_body: '77s' } })
  t.match(await served.gateway.reload('test'), { ok: true })
  served.configure({ ...upstreamless, limits: { client_body: '77s' } })
  const stopped = join(folder, 'stopped.db')
  const store = await openStore({ file: stopped, durability: 'process' })
  await settle(store, reserve(store.ledger, [scope('tenant', 'acme')], 50n), 7)
  await store.close()
  const newApi = join(folder, 'new-api.sql')
  writeFileSync(
    newApi,
    `INSERT INTO channels (id, type, key, status, name, models) VALUES (1, 14, 'a', 1, 'up', 'claude-sonnet-4-5');\n`
  )
  const bill = join(folder, 'bill.json')
  const day = Date.UTC(2026, 10, 21) / 1000
  writeFileSync(
    bill,
    JSON.stringify({
      object: 'page',
      data: [
        {
          object: 'bucket',
          start_time: day,
          end_time: day + 86_400,
          results: [
            {
              object: 'organization.costs.result',
              amount: { value: 1, currency: 'usd' },
              line_item: 'gpt-5, output',
              project_id: null
            }
          ]
        }
      ],
      has_more: false,
      next_page: null
    })
  )
  const at = `--config ${file}`
  /** The line that each command is run with, in this order, and its exit code where that is not 0. */
  const lines: Readonly<Record<string, string | readonly [line: string, code: number]>> = {
    init: `--yes --config ${join(folder, 'first.yaml')}`,
    health: at,
    check: at,
    diff: `${at} ${file} ${file}`,
    'config history': at,
    explain: `--request ${id} ${at}`,
    plugins: at,
    'tenants create': `beta ${at}`,
    'tenants list': at,
    'tenants change': `beta --budget 5/day ${at}`,
    'projects create': `beta/web ${at}`,
    'projects list': at,
    'projects change': `beta/web --budget 5/day ${at}`,
    'members create': `beta/web/bob ${at}`,
    'members list': at,
    'members change': `beta/web/bob --budget 5/day ${at}`,
    'members close': `beta/web/bob ${at}`,
    'keys create': `--tenant beta --name ci ${at}`,
    'keys list': at,
    'keys change': `ci --budget 5/day ${at}`,
    'keys rotate': `ci ${at}`,
    'keys revoke': `ci ${at}`,
    'projects close': `beta/web ${at}`,
    'tenants close': `beta ${at}`,
    'operators create': `carol --role viewer ${at}`,
    'operators list': at,
    'operators change': `carol --role operator ${at}`,
    'operators rotate': `carol ${at}`,
    'operators revoke': `carol ${at}`,
    'channels list': at,
    'channels switch': `demo on ${at}`,
    'channels test': `demo ${at}`,
    'audit list': at,
    'audit export': at,
    rollback: `--force ${at}`,
    'ledger verify': `--db ${stopped}`,
    'ledger balance': `--db ${stopped}`,
    'ledger export': `--db ${stopped}`,
    'ledger backup': `${join(folder, 'copy.db')} --db ${stopped}`,
    'ledger repair': `--db ${stopped}`,
    'ledger restore': `${join(folder, 'copy.db')} --db ${stopped}`,
    ...(!postgresMissing && { 'ledger move': `--from ${stopped} --to ${await (await sharedPostgres()).database()}` }),
    'ledger reconcile': `${bill} --db ${stopped}`,
    spend: `--db ${stopped}`,
    'import litellm': join(root, 'test/golden/import/prices.json'),
    'import new-api': newApi,
    completion: 'bash'
  }
  t.same(
    [...new Set([...Object.keys(lines), 'ledger move', 'start', 'upgrade'])].sort(),
    commands.map(({ name }) => name).sort(),
    'no command is forgotten'
  )
  const entries = Object.entries(lines).map(([name, given]) => [name, ...[given].flat()] as [string, string, number?])
  const ended = await sluiceEach(entries.map(([name, line]) => [...words(`${name} ${line}`), '--json']))
  for (const [index, [name, line, code = 0]] of entries.entries()) {
    const { out, err, code: found } = ended[index]!
    t.equal(found, code, `${name} ${line}: ${err}`)
    t.not(out, '', `${name} says something`)
    for (const one of out.trimEnd().split('\n'))
      t.doesNotThrow(() => JSON.parse(one) as unknown, `${name}: ${one.slice(0, 80)}`)
    t.notMatch(`${out}${err}`, '\u001b', `${name} has no colours`)
  }
  const child = spawn(process.execPath, [main, 'start', '--json', ...words(at.replace(file, startable(folder)))], {
    stdio: ['ignore', 'pipe', 'ignore']
  })
  const [first] = (await once(child.stdout, 'data')) as [Buffer]
  t.match(JSON.parse(String(first).split('\n')[0]!), { message: 'ready' })
  child.kill('SIGTERM')
  await once(child, 'exit')
})

function startable(folder: string): string {
  mkdirSync(join(folder, 'other'))
  const file = join(folder, 'other', 'gateway.yaml')
  const text = readFileSync(join(root, 'gateway.yaml'), 'utf8')
  writeFileSync(file, text.replace('port: 8080', 'port: 0').replace('port: 9090', 'port: 0'))
  return file
}

t.test('each kind of failure has the exit code that the table says', async (t) => {
  const folder = t.testdir()
  const file = join(folder, 'sluice.db')
  const store = await openStore({ file, durability: 'process' })
  await settle(store, reserve(store.ledger, [scope('tenant', 'acme')], 50n), 7)
  const config = join(folder, 'gateway.yaml')
  const shipped = readFileSync(join(root, 'gateway.yaml'), 'utf8')
  writeFileSync(config, shipped.replace('port: 8080', 'port: 0').replace('port: 9090', 'port: 1'))
  const [used] = await sluiceEach([['ledger', 'repair', '--db', file]])
  await store.close()
  const wrong = join(folder, 'wrong.db')
  cpSync(file, wrong)
  const database = openDatabase(wrong, 'process')
  database.exec("UPDATE balance SET posted = posted + 1 WHERE window = 'total'")
  database.close()
  const cut = join(folder, 'cut.db')
  cpSync(file, cut)
  truncateSync(cut, 30_000)
  const cases: [line: string, code: number][] = [
    [`ledger verify --db ${file}`, 0],
    [`ledger backup ${file} --db ${file}`, 1],
    ['ledger verify --bd x', 2],
    [`check --config ${join(folder, 'none.yaml')}`, 2],
    [`ledger verify --db ${wrong}`, 3],
    [`ledger repair --db ${cut}`, 1],
    [`ledger restore ${cut} --db ${file}`, 5],
    [`channels list --config ${config}`, 6]
  ]
  const ended = await sluiceEach(cases.map(([line]) => line.split(' ')))
  for (const [index, [line, code]] of cases.entries())
    t.equal(ended[index]!.code, code, `${line}: ${ended[index]!.err}`)
  t.equal(used!.code, 4, used!.err)
  t.match(used!.err, /^sluice ledger repair: .* is in use by process \d+: stop that process/)
  t.same(
    exitCodes.map(([code]) => code),
    [0, 1, 2, 3, 4, 5, 6, 7, 130]
  )
  if (noDisk !== false) return
  mkdirSync(join(folder, 'full'))
  const target = join(folder, 'full', 'copy.db')
  const disk = Disk.make(t, target)
  disk.set({ writes: 'ENOSPC' })
  const full = await sluice(['ledger', 'backup', target, '--db', file], { env: disk.env, alone: true })
  t.match(full, { code: 7, err: /full/ })
})

t.test(
  'bash completes commands, options, words and files',
  { skip: spawnSync('bash', ['-c', ':']).status !== 0 },
  async (t) => {
    const folder = t.testdir({ 'backup one.db': '', 'gateway.yaml': '' })
    const [script] = await sluiceEach([['completion', 'bash']])
    writeFileSync(join(folder, 'sluice.bash'), script!.out)
    const complete = (...line: string[]): string[] => {
      const code = `source ./sluice.bash
      complete -p sluice >/dev/null || exit 9
      COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _sluice 2>/dev/null; printf '%s\\n' "\${COMPREPLY[@]}"`
      const { stdout, status } = spawnSync('bash', ['--norc', '-c', code, 'bash', 'sluice', ...line], { cwd: folder })
      t.equal(status, 0)
      return String(stdout)
        .split('\n')
        .filter((one) => one !== '')
    }
    t.same(new Set(complete('')), new Set(['help', 'version', ...commands.map(({ name }) => name.split(' ')[0])]))
    t.same(complete('le'), ['ledger'])
    t.same(complete('ledger', 're').sort(), ['reconcile', 'repair', 'restore'])
    t.same(complete('help', 'ledger', 'v'), ['verify'])
    t.same(complete('ledger', 'restore', '--d').sort(), ['--db', '--dry-run'])
    t.same(complete('ledger', 'restore', 'backup'), ['backup one.db'])
    t.same(complete('check', '--config', 'gate'), ['gateway.yaml'])
    t.same(complete('ledger', 'export', '--format', ''), [])
    t.same(complete('completion', ''), ['bash', 'zsh', 'fish'])
    t.same(complete('channels', 'switch', 'openai', 'd'), ['drain'])
    for (const { name, options } of commands)
      t.same(
        new Set(complete(...name.split(' '), '--')),
        new Set(Object.keys(options).map((option) => `--${option}`)),
        name
      )
    const shells = await sluiceEach([
      ['completion', 'zsh'],
      ['completion', 'fish'],
      ['completion', 'csh']
    ])
    t.match(shells[0]!.out, /^#compdef sluice\n/)
    for (const { name } of commands.filter((command) => !command.name.includes(' ')))
      t.match(shells[1]!.out, ` -a ${name} -d '`)
    t.match(shells[2], { code: 2, err: /"csh" is none of bash, zsh, fish/ })
  }
)

t.test('progress has a rate and the time that is left, as far as they are known', async (t) => {
  const first = { words: 'copying the database', unit: 'bytes', done: 0, of: 400e6, time: 1000 } as const
  t.equal(
    progressLine(first, { ...first, done: 100e6, time: 3000 }, 2),
    'copying the database: 100 MB of 400 MB, 50 MB/s, 2 s, 6 s left'
  )
  t.equal(progressLine(first, { ...first, done: undefined, of: undefined }, 1), 'copying the database, 1 s')
  const rows = { words: 'writing the journal', unit: 'rows', done: 0, of: undefined, time: 0 } as const
  t.equal(
    progressLine(rows, { ...rows, done: 12_345, time: 1000 }, 1),
    'writing the journal: 12,345 rows, 12,345 rows/s, 1 s'
  )
  t.match(
    progressLine(first, { ...first, done: 1e6, time: 101_000 }, 100),
    / 1 MB of 400 MB, 0 MB\/s, 100 s, 11 h 5 min left$/
  )
})

/** Runs a script of Node on a terminal, and returns what that shows. */
function onTerminal(script: string, env: NodeJS.ProcessEnv): string {
  const python = 'import pty, sys; pty.spawn(sys.argv[1:])'
  const node = [process.execPath, '--input-type=module', '--eval', script]
  return spawnSync('python3', ['-c', python, ...node], {
    encoding: 'utf8',
    env: { PATH: process.env['PATH'], TERM: 'xterm', ...env }
  }).stdout
}

t.test(
  'a terminal has one line of progress that goes, and colours unless NO_COLOR is set',
  { skip: spawnSync('python3', ['-c', 'import pty']).status !== 0 },
  async (t) => {
    const progress = `
      import { Progress } from ${JSON.stringify(join(root, 'core/commands/output/progress.ts'))}
      await Progress.of('looking', (tell) => {
        tell('checking journal', { done: 12345, unit: 'rows' })
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3000)
      })`
    const live = onTerminal(progress, {})
    t.match(live.replaceAll('\r\u001b[K', '<'), /^(?:<checking journal: 12,345 rows, \d s)+<$/)
    t.match(onTerminal(progress, { TERM: 'dumb' }), /^(?:checking journal: 12,345 rows, \d s\r\n)+$/)
    const log = `
      import { createLogger } from ${JSON.stringify(join(root, 'core/telling/log.ts'))}
      const log = createLogger({ pretty: true })
      log.warn('hot')
      await log.flush()`
    t.match(onTerminal(log, {}), '\u001b[33mwarn')
    const plain = onTerminal(log, { NO_COLOR: '1' })
    t.match(plain, /warn +hot/)
    t.notMatch(plain, '\u001b')
  }
)
