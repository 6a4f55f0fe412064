// A PostgreSQL server of its own for a test file, on a socket in a temporary folder. Nothing else can reach it.
import { execFile, spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import pg from 'pg'
import tap from 'tap'

const run = promisify(execFile)
const cache = join(import.meta.dirname, '../../.cache/postgres')
/** Where Debian puts the programs of each version, and the PATH for any other system. */
const folders = [
  ...['18', '17', '16', '15', '14'].map((version) => `/usr/lib/postgresql/${version}/bin`),
  ...(process.env['PATH'] ?? '').split(':')
]
const programs = folders.find((folder) => existsSync(join(folder, 'initdb')) && existsSync(join(folder, 'postgres')))

/** Why tests that need PostgreSQL are skipped; false when they are not. */
export const postgresMissing =
  programs === undefined && 'PostgreSQL is not installed (Debian: apt-get install postgresql)'

/** The user that the server runs as: PostgreSQL refuses to run as root. */
const user = process.getuid?.() === 0 ? unprivileged() : undefined

function unprivileged(): { uid: number; gid: number } {
  const users = readFileSync('/etc/passwd', 'utf8').split('\n')
  const line = users.find((one) => one.startsWith('postgres:')) ?? users.find((one) => one.startsWith('nobody:'))
  const [, , uid, gid] = line!.split(':')
  return { uid: Number(uid), gid: Number(gid) }
}

/** Short, so that its files are small, and without what only a loss of power shows. */
const settings = Object.entries({
  fsync: 'off',
  listen_addresses: '',
  max_connections: '100',
  shared_buffers: '32MB',
  autovacuum_naptime: '5s',
  wal_retrieve_retry_interval: '200ms',
  log_min_messages: 'fatal'
}).flatMap(([name, value]) => ['-c', `${name}=${value}`])

/**
 * Ends the server when the process of the test ends, however that ends: then its standard input ends. The folder goes
 * with it.
 */
const guard = `"$0" "$@" & server=$!
while read -r signal; do kill "-$signal" "$server"; done
kill -QUIT "$server" 2>/dev/null; wait "$server"`

/** A server. */
export class Postgres {
  readonly #folder: string
  #guard: ChildProcess | undefined
  #made = 0

  private constructor(folder: string) {
    this.#folder = folder
  }

  /** Starts a server with empty data. It ends, and its data go, with the test file. */
  static async start(): Promise<Postgres> {
    if (programs === undefined) throw new Error(`${postgresMissing}`)
    const folder = mkdtempSync(join(tmpdir(), 'sluice-postgres-'))
    if (user) chownSync(folder, user.uid, user.gid)
    const server = new Postgres(folder)
    tap.teardown(async () => {
      await server.stop()
      rmSync(folder, { recursive: true, force: true })
    })
    await copyTemplate(join(folder, 'data'))
    await server.resume()
    return server
  }

  /** Starts the server on the data that it has. */
  async resume(): Promise<void> {
    const args = [
      '-c',
      guard,
      join(programs!, 'postgres'),
      '-D',
      join(this.#folder, 'data'),
      '-k',
      this.#folder,
      ...settings
    ]
    this.#guard = spawn('/bin/sh', args, { stdio: ['pipe', 'ignore', 'pipe'], cwd: this.#folder, ...user })
    let said = ''
    this.#guard.stderr!.setEncoding('utf8').on('data', (text: string) => (said += text))
    for (;;) {
      if (this.#guard.exitCode !== null) throw new Error(`PostgreSQL did not start: ${said}`)
      try {
        return void (await this.sql('select 1'))
      } catch {
        await sleep(20)
      }
    }
  }

  /** The socket of the server, for a proxy before it. */
  get socket(): string {
    return join(this.#folder, '.s.PGSQL.5432')
  }

  /** The URL of a database. */
  url(database: string): string {
    return `postgres://sluice@localhost/${database}?host=${encodeURIComponent(this.#folder)}`
  }

  /** Makes an empty database, and returns its URL. */
  async database(): Promise<string> {
    const name = `test${++this.#made}`
    await this.sql(`create database ${name}`)
    return this.url(name)
  }

  /** Runs statements as the administrator, in a database that is given by its URL. */
  async sql(text: string, url = this.url('postgres'), values?: unknown[]): Promise<any[]> {
    const { searchParams, pathname } = new URL(url)
    const client = new pg.Client({
      host: searchParams.get('host')!,
      port: 5432,
      user: 'sluice',
      database: pathname.slice(1)
    })
    client.on('error', () => {})
    await client.connect()
    try {
      return (await client.query(text, values)).rows
    } finally {
      await client.end()
    }
  }

  /** Kills the server as a crash does (`QUIT`), or ends it after its connections are cut (`INT`). */
  async stop(signal: 'QUIT' | 'INT' = 'QUIT'): Promise<void> {
    const guarding = this.#guard
    if (!guarding || guarding.exitCode !== null || guarding.signalCode !== null) return
    const gone = once(guarding, 'close')
    guarding.stdin!.end(`${signal}\n`)
    await gone
  }
}

/** Copies the data of a new server, which are made once: that takes a second, and copying a tenth of it. */
async function copyTemplate(to: string): Promise<void> {
  const { stdout: version } = await run(join(programs!, 'postgres'), ['--version'])
  const template = join(cache, version.trim().replace(/[^\w.]+/g, '-'))
  if (!existsSync(template)) {
    const made = mkdtempSync(join(tmpdir(), 'sluice-initdb-'))
    if (user) chownSync(made, user.uid, user.gid)
    const args = [
      '-D',
      join(made, 'data'),
      '-A',
      'trust',
      '-U',
      'sluice',
      '-E',
      'UTF8',
      '--locale=C.UTF-8',
      '--wal-segsize=1',
      '-N'
    ]
    await run(join(programs!, 'initdb'), args, { cwd: made, ...user })
    mkdirSync(cache, { recursive: true })
    const copy = mkdtempSync(join(cache, 'new-'))
    cpSync(join(made, 'data'), join(copy, 'data'), { recursive: true })
    rmSync(made, { recursive: true })
    // Of two files that make it at once, the second keeps that of the first.
    if (!existsSync(template)) renameSync(join(copy, 'data'), template)
    rmSync(copy, { recursive: true })
  }
  await run('cp', ['-a', template, to])
  await run('chmod', ['700', to])
  if (user) await run('chown', ['-R', `${user.uid}:${user.gid}`, to])
}

let shared: Promise<Postgres> | undefined

/** The one server of a test file. */
export function sharedPostgres(): Promise<Postgres> {
  return (shared ??= Postgres.start())
}
