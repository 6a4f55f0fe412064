// A PostgreSQL server of its own for a process of tests, on a socket in a temporary folder. Nothing else can reach it.
import { execFile, spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import type { Test } from 'tap'
import { Administrator } from './administrator.ts'

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
export const serverUser = process.getuid?.() === 0 ? unprivileged() : undefined

function unprivileged(): { uid: number; gid: number } {
  const users = readFileSync('/etc/passwd', 'utf8').split('\n')
  const line = users.find((one) => one.startsWith('postgres:')) ?? users.find((one) => one.startsWith('nobody:'))
  const [, , uid, gid] = line!.split(':')
  return { uid: Number(uid), gid: Number(gid) }
}

/** Short, so that its files are small, and without what only a loss of power shows. */
const usual = {
  fsync: 'off',
  listen_addresses: '',
  max_connections: '100',
  shared_buffers: '32MB',
  autovacuum_naptime: '5s',
  wal_retrieve_retry_interval: '200ms',
  log_min_messages: 'fatal',
  // In its folder, so that a server that is killed leaves nothing.
  dynamic_shared_memory_type: 'mmap'
}

/** How a server differs from the usual one. */
export interface PostgresOptions {
  /** Settings in place of the usual ones, such as `max_connections`. */
  readonly settings?: Readonly<Record<string, string>>
  /** Beside the environment of this process. */
  readonly env?: Readonly<Record<string, string>>
}

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
  readonly #options: PostgresOptions
  readonly #administrator = new Administrator()
  #guard: ChildProcess | undefined
  #made = 0
  #tables: Promise<string> | undefined

  private constructor(folder: string, options: PostgresOptions) {
    this.#folder = folder
    this.#options = options
  }

  /** Starts a server with empty data. It ends, and its data go, with the test; by default with the test file. */
  static async start(t?: Pick<Test, 'teardown'>, options: PostgresOptions = {}): Promise<Postgres> {
    const server = await Postgres.#make(t ?? (await import('tap')).default, options)
    await copyTemplate(server.#data)
    await server.resume()
    return server
  }

  /** Starts a standby that follows this server, and ends with the test. It takes no changes until it is promoted. */
  async standby(t: Pick<Test, 'teardown'>): Promise<Postgres> {
    const server = await Postgres.#make(t, {})
    const args = ['-h', this.#folder, '-U', 'sluice', '-D', server.#data, '-R', '-X', 'stream', '-c', 'fast']
    await run(join(programs!, 'pg_basebackup'), args, { cwd: server.#folder, ...serverUser })
    await server.resume()
    return server
  }

  static async #make(t: Pick<Test, 'teardown'>, options: PostgresOptions): Promise<Postgres> {
    if (programs === undefined) throw new Error(`${postgresMissing}`)
    const folder = mkdtempSync(join(tmpdir(), 'sluice-postgres-'))
    if (serverUser) chownSync(folder, serverUser.uid, serverUser.gid)
    const server = new Postgres(folder, options)
    t.teardown(async () => {
      await server.stop()
      rmSync(folder, { recursive: true, force: true })
    })
    return server
  }

  get #data(): string {
    return join(this.#folder, 'data')
  }

  /** Lets a standby take changes; resolves when it does. */
  async promote(): Promise<void> {
    await this.sql('select pg_promote()')
  }

  /**
   * Starts the server on the data that it has.
   * @throws Error when it ends instead, as while processes of one that was killed are still there
   */
  async resume(): Promise<void> {
    const { settings, env } = this.#options
    const set = Object.entries({ ...usual, ...settings }).flatMap(([name, value]) => ['-c', `${name}=${value}`])
    const args = ['-c', guard, join(programs!, 'postgres'), '-D', this.#data, '-k', this.#folder, ...set]
    this.#guard = spawn('/bin/sh', args, {
      stdio: ['pipe', 'ignore', 'pipe'],
      cwd: this.#folder,
      env: { ...process.env, ...env },
      ...serverUser
    })
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

  /** The URL of a database. `timeout`: seconds; a busy machine has time to answer. */
  url(database: string, timeout = 60): string {
    return `postgres://sluice@localhost/${database}?host=${encodeURIComponent(this.#folder)}&timeout=${timeout}`
  }

  /** Makes an empty database, and returns its URL. `timeout`: seconds for which a server that is gone is waited for. */
  database(timeout?: number): Promise<string> {
    return this.#create('', timeout)
  }

  /**
   * Makes a database as the first start of a gateway leaves it, with all tables and nothing in them, and returns its
   * URL. It is a copy of the first of this server, which takes a part of the time.
   */
  async book(timeout?: number): Promise<string> {
    return this.#create(`template ${await (this.#tables ??= this.#makeTables())}`, timeout)
  }

  async #create(how: string, timeout?: number): Promise<string> {
    const name = `test${++this.#made}`
    await this.sql(`create database ${name} ${how}`)
    return this.url(name, timeout)
  }

  /** Makes the database that books are copies of, and returns its name. */
  async #makeTables(): Promise<string> {
    const { Database } = await import('../../core/store/cluster/database/database.ts')
    const url = await this.database()
    await (await Database.open({ url })).close()
    return new URL(url).pathname.slice(1)
  }

  /** The id of its first process, which makes all others. */
  get pid(): number {
    return Number(readFileSync(join(this.#data, 'postmaster.pid'), 'utf8').split('\n')[0])
  }

  /** The folder of its socket, for programs that connect by its name. */
  get folder(): string {
    return this.#folder
  }

  /**
   * Runs statements as the administrator, in a database that is given by its URL. Each has a connection of its own,
   * which is kept for the next one.
   */
  sql(text: string, url = this.url('postgres'), values?: unknown[]): Promise<any[]> {
    return this.#administrator.query(text, url, values)
  }

  /**
   * Kills the server as a crash does (`QUIT`), ends it after its connections are cut (`INT`), or kills its first
   * process, whose others notice (`KILL`).
   */
  async stop(signal: 'QUIT' | 'INT' | 'KILL' = 'QUIT'): Promise<void> {
    if (this.stopped) return
    const gone = once(this.#guard!, 'close')
    this.#guard!.stdin!.end(`${signal}\n`)
    await gone
  }

  /** Whether it does not run. */
  get stopped(): boolean {
    return !this.#guard || this.#guard.exitCode !== null || this.#guard.signalCode !== null
  }
}

/** Copies the data of a new server, which are made once: that takes a second, and copying a tenth of it. */
async function copyTemplate(to: string): Promise<void> {
  const { stdout: version } = await run(join(programs!, 'postgres'), ['--version'])
  const template = join(cache, version.trim().replace(/[^\w.]+/g, '-'))
  if (!existsSync(template)) {
    const made = mkdtempSync(join(tmpdir(), 'sluice-initdb-'))
    if (serverUser) chownSync(made, serverUser.uid, serverUser.gid)
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
    await run(join(programs!, 'initdb'), args, { cwd: made, ...serverUser })
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
  if (serverUser) await run('chown', ['-R', `${serverUser.uid}:${serverUser.gid}`, to])
}

let shared: Promise<Postgres> | undefined

/** The one server of this process. It runs, whatever a test that failed has left. */
export async function sharedPostgres(): Promise<Postgres> {
  const server = await (shared ??= Postgres.start())
  if (server.stopped) await server.resume()
  return server
}
