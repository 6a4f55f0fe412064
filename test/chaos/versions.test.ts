// Upgrades of the program itself under load: to another version and back, which the clients notice by nothing but what
// the other version says.
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { ask } from '../kit/client.ts'
import { sluice } from '../kit/command.ts'
import { spawnGateway } from '../kit/gateway.ts'
import { restarts } from './restarts.ts'

t.setTimeout(600_000)
const root = join(import.meta.dirname, '../..')
const upgrade = { method: 'POST', path: '/admin/v1/upgrade' }

/** A change of one file of a version. */
type Edit = readonly [file: string, from: string, to: string]

/** Copies of the program side by side. All tests have the same: Node keeps what it has compiled of each. */
const shelf = mkdtempSync(join(tmpdir(), 'versions-'))
t.teardown(() => rmSync(shelf, { recursive: true, force: true }))

/** Versions, and a link to the one that is installed, as a deployment has them. */
class Versions {
  /** The program, by way of the link. */
  readonly main: string
  readonly #folder = mkdtempSync(join(shelf, 'deployment-'))

  constructor() {
    this.main = join(this.#folder, 'current/core/main.ts')
  }

  /** Makes a version, which says what it is in its metrics and in each answer. A name stands for the same edits. */
  add(version: string, edits: readonly Edit[] = []): void {
    const folder = join(shelf, version)
    if (existsSync(folder)) return
    mkdirSync(folder)
    for (const name of ['core', 'config', 'plugins', 'package.json'])
      cpSync(join(root, name), join(folder, name), { recursive: true })
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
    const { version: present } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
    const said: Edit = [
      'core/exchange/state/exchange.ts',
      'HeaderLines.identified(this.id)',
      `HeaderLines.identified(this.id).add('x-code', '${version}')`
    ]
    const named: Edit = ['package.json', `"version": "${present}"`, `"version": "${version}"`]
    for (const [file, from, to] of [said, named, ...edits]) {
      const text = readFileSync(join(folder, file), 'utf8')
      if (!text.includes(from)) throw new Error(`${file} has no ${from}`)
      writeFileSync(join(folder, file), text.replace(from, to))
    }
  }

  /** Makes a version the one that is installed, at once. */
  install(version: string): void {
    const link = join(this.#folder, 'next')
    symlinkSync(join(shelf, version), link)
    renameSync(link, join(this.#folder, 'current'))
  }
}

const migration: Edit = [
  'core/store/embedded/database/schema.ts',
  '  `\n]',
  '  `,\n  `CREATE TABLE later (id INTEGER PRIMARY KEY) STRICT`\n]'
]

const isLong = process.env['SLUICE_LONG'] !== undefined

for (const tls of isLong ? [false, true] : [false])
  void t.test(
    `under load nobody notices that the program becomes another version, and the former one again${tls ? ', over TLS' : ''}`,
    async (t) => {
      const versions = new Versions()
      versions.add('7.0.1')
      versions.add('7.0.2')
      versions.install('7.0.1')
      const before = (next: number): void => versions.install(next % 2 === 0 ? '7.0.2' : '7.0.1')
      const { main } = versions
      const tally = await restarts({ handOvers: 2, rate: isLong ? 300 : 20, tls, main, before })
      const { refused, reset, cut, lost, doubled, unasked, due, charged, verified, noticed, codes, handOvers } = tally
      const nothing = { refused: 0, reset: 0, cut: 0, lost: 0, doubled: 0, unasked: 0, noticed: [], verified: true }
      t.strictSame({ refused, reset, cut, lost, doubled, unasked, noticed, verified }, nothing)
      t.equal(charged, due)
      t.equal(handOvers, 2)
      t.strictSame([...codes].sort(), ['7.0.1', '7.0.2'])
      t.comment(`${tally.answered} answers`)
    }
  )

t.test('a version with a migration takes over, and the former one is refused before the store is left', async (t) => {
  const versions = new Versions()
  versions.add('7.0.1')
  versions.add('8.0.0', [migration])
  versions.install('7.0.1')
  const running = await spawnGateway(t, {}, { main: versions.main })
  versions.install('8.0.0')
  const forward = await ask(t, running.adminUrl, upgrade)
  t.match([forward.status, forward.json()], [200, { ok: true, generation: 2 }])
  t.equal((await running.chat()).headers['x-code'], '8.0.0')
  versions.install('7.0.1')
  const back = await ask(t, running.adminUrl, upgrade)
  t.match(
    [back.status, back.json().error.message],
    [409, /has schema version \d+ and this program knows \d+: an older version cannot take over/]
  )
  t.equal((await running.chat()).headers['x-code'], '8.0.0', 'the newer one serves on')
  t.notMatch(running.output(), /takes the store back/)
  t.match((await ask(t, running.adminUrl, { path: '/metrics' })).text, /build_info\{version="8\.0\.0"/)
})

t.test('a version that is broken, or not there, changes nothing', async (t) => {
  const versions = new Versions()
  versions.add('7.0.1')
  versions.add('7.0.4', [
    ['core/store/embedded/database/schema.ts', 'export const migrations', 'export const migrations:']
  ])
  versions.add('7.0.3', [
    ['core/store/embedded/database/migration.ts', "database.exec('COMMIT')", "throw new Error('no such luck')"]
  ])
  versions.install('7.0.1')
  const running = await spawnGateway(t, {}, { main: versions.main })
  for (const [version, reason] of [
    ['7.0.4', /it ended with exit code 1: its last lines on standard error say why/],
    ['7.0.3', /no such luck/],
    ['nowhere', /it ended with exit code 1/]
  ] as const) {
    versions.install(version)
    const reply = await ask(t, running.adminUrl, upgrade)
    t.match([reply.status, reply.json().error.message], [409, reason], version)
    t.equal((await running.chat()).headers['x-code'], '7.0.1')
  }
  versions.install('7.0.1')
  const mended = await ask(t, running.adminUrl, upgrade)
  t.match([mended.status, mended.json()], [200, { ok: true, generation: 2 }])
  process.kill(running.pids().at(-1)!, 'SIGTERM')
  await running.ended
  const verified = await sluice(['ledger', 'verify', '--db', join(running.file, '..', 'sluice.db')])
  t.equal(verified.code, 0, verified.out)
})
