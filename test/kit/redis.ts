// A Redis server of its own for a test file, on a port of its own of loopback. It keeps nothing on disk.
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createClient } from '@redis/client'
import type { Test } from 'tap'
import { freePort } from './ports.ts'
import { program } from './programs.ts'

/** Whichever of the two is there. */
const server = program('redis-server') ?? program('valkey-server')

/** Why tests that need Redis are skipped; false when they are not. */
export const redisMissing = server === undefined && 'neither redis-server nor valkey-server is installed: see .ci/run'

/** Libraries of packages that were unpacked instead of installed. */
const libraries = join(import.meta.dirname, '..', '..', '.cache', 'debian', 'usr', 'lib', 'x86_64-linux-gnu')

/** Ends the server when the process of the test ends, however that ends: then its standard input ends. */
const guard = '"$0" "$@" & echo "pid $!"; cat >/dev/null; kill -KILL $!; wait'

/** What a server is, and its command line for a port. */
const kinds = {
  plain: (port: string) => ['--port', port, '--save', '', '--appendonly', 'no'],
  tls: (port: string) => ['--port', '0', '--tls-port', port, '--save', '', '--appendonly', 'no'],
  sentinel: (port: string) => ['--port', port]
} as const

/** A server. Starting and stopping it does not change its port. */
export class RedisServer {
  readonly port: number
  readonly #kind: keyof typeof kinds
  readonly #settings: readonly string[]
  /** Where it writes what it must write: a snapshot for a replica, the servers of a cluster. */
  readonly #folder = mkdtempSync(join(tmpdir(), 'sluice-redis-'))
  #guard: ChildProcess | undefined
  #pid = 0

  private constructor(kind: keyof typeof kinds, port: number, settings: readonly string[]) {
    this.#kind = kind
    this.port = port
    this.#settings = settings
  }

  /** Starts an empty server, which ends with the test. `settings` are those of its command line. */
  static start(t: Pick<Test, 'teardown'>, ...settings: string[]): Promise<RedisServer> {
    return RedisServer.#start(t, 'plain', settings)
  }

  /** Starts one that speaks TLS alone, by the certificate in `settings`. */
  static startTls(t: Pick<Test, 'teardown'>, ...settings: string[]): Promise<RedisServer> {
    return RedisServer.#start(t, 'tls', settings)
  }

  /** Starts a sentinel. `file`: the path of its configuration, which it rewrites. */
  static startSentinel(t: Pick<Test, 'teardown'>, file: string): Promise<RedisServer> {
    return RedisServer.#start(t, 'sentinel', [file, '--sentinel'])
  }

  static async #start(
    t: Pick<Test, 'teardown'>,
    kind: keyof typeof kinds,
    settings: readonly string[]
  ): Promise<RedisServer> {
    // Another process may take the port first.
    for (let tries = 0; ; tries++) {
      const one = new RedisServer(kind, await freePort(), settings)
      try {
        await one.resume()
        t.teardown(() => one.#end())
        return one
      } catch (error) {
        await one.#end()
        if (tries === 5) throw error
      }
    }
  }

  /** The id of its process. */
  get pid(): number {
    return this.#pid
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`
  }

  /** Starts it again, empty. */
  async resume(): Promise<void> {
    // The file of a sentinel comes first.
    const args = [...this.#settings, ...kinds[this.#kind](String(this.port)), '--bind', '127.0.0.1']
    const guarding = spawn('/bin/sh', ['-c', guard, server!, ...args], {
      cwd: this.#folder,
      stdio: ['pipe', 'pipe', 'ignore'],
      env: { ...process.env, LD_LIBRARY_PATH: libraries }
    })
    this.#guard = guarding
    let said = ''
    this.#pid = await new Promise<number>((resolve, reject) => {
      guarding.stdout.on('data', (text: Buffer) => {
        said += String(text)
        // The server may be ready before the shell that began it has said its id.
        const pid = /^pid (\d+)$/m.exec(said)
        if (pid && /ready to accept connections|Sentinel ID is/i.test(said)) resolve(Number(pid[1]))
        if (/already in use|fatal|not found|error/i.test(said)) reject(new Error(`Redis did not start: ${said}`))
      })
      guarding.on('error', reject)
    })
  }

  /** Stops it at once, with all that it has. */
  async kill(): Promise<void> {
    const guarding = this.#guard
    this.#guard = undefined
    if (!guarding) return
    const gone = once(guarding, 'exit')
    guarding.stdin!.end()
    await gone
  }

  async #end(): Promise<void> {
    await this.kill()
    rmSync(this.#folder, { recursive: true, force: true })
  }

  /** Sends its process a signal such as SIGSTOP. */
  signal(name: NodeJS.Signals): void {
    process.kill(this.#pid, name)
  }

  /**
   * Runs commands on a connection of their own: they are sent at once, and nobody else's come between them. Resolves
   * with the last answer.
   */
  async run(...commands: string[][]): Promise<any> {
    const client = createClient({ url: this.url, RESP: 2, disableClientInfo: true })
    client.on('error', () => {})
    await client.connect()
    try {
      return (await Promise.all(commands.map((command) => client.sendCommand(command)))).at(-1)
    } finally {
      client.destroy()
    }
  }
}
