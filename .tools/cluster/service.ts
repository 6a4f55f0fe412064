// A program that belongs to the cluster: it is started again when it ends by itself, and ends with the cluster, however
// that ends.
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Account } from './programs.ts'

/**
 * Passes on the names of signals that it reads, and the signal `$0` when there are no more to come because the process
 * of the cluster is gone. It ends as the program ends.
 */
const guard = `last=$0
exec 3<&0
"$@" </dev/null & child=$!
echo "pid $child"
{ while read -r signal; do kill "-$signal" "$child"; done; kill "-$last" "$child"; } <&3 &
watcher=$!
wait "$child"; code=$?
kill "$watcher" 2>/dev/null
exit "$code"`

/** Milliseconds until a program that has ended by itself is started again. */
const pause = 1000

/** How a program is run. */
export interface Command {
  /** What people call it: `node-1`. */
  readonly name: string
  readonly file: string
  readonly args: readonly string[]
  /** The folder that it runs in. */
  readonly cwd: string
  readonly env?: Readonly<Record<string, string>>
  /** Who runs it, where that is not the user of the cluster. */
  readonly account?: Account | undefined
  /** The signal by which it ends in good order, and the one for when the process of the cluster was killed. */
  readonly signals: readonly [orderly: string, sudden: string]
  /** What is in the line by which it says that it is ready; or a port of loopback, which takes connections then. */
  readonly ready: string | number
}

/** A program that runs, or will again. */
export class Service {
  readonly name: string
  /** The id of its process; 0 while there is none. */
  pid = 0
  readonly #command: Command
  readonly #say: (text: string) => void
  #guard: ChildProcess | undefined
  #ended: Promise<unknown> = Promise.resolve()
  #stopping = false

  /** `say` tells people that it has ended and is started again. */
  constructor(command: Command, say: (text: string) => void) {
    this.name = command.name
    this.#command = command
    this.#say = say
  }

  /**
   * Starts it. Resolves when it is ready, with the line that says so.
   * @throws Error when it ends before it says so, with what it wrote
   */
  async start(): Promise<string> {
    const { file, args, cwd, env, account, signals, ready } = this.#command
    // In a process group of its own: Ctrl-C reaches the process of the cluster alone, which ends all in their order.
    const guarding = spawn('/bin/sh', ['-c', guard, signals[1], file, ...args], {
      cwd,
      detached: true,
      stdio: ['pipe', 'pipe', 'pipe'],
      env: { ...process.env, ...env },
      ...account
    })
    this.#guard = guarding
    guarding.stdin.on('error', () => {})
    const exited = once(guarding, 'close')
    this.#ended = exited.catch(() => {})
    const recent: string[] = []
    const line = await new Promise<string>((resolve, reject) => {
      for (const stream of [guarding.stdout, guarding.stderr]) {
        let rest = ''
        stream.setEncoding('utf8').on('data', (text: string) => {
          const lines = (rest + text).split('\n')
          rest = lines.pop()!
          for (const line of lines) {
            const [, pid] = /^pid (\d+)$/.exec(line) ?? []
            if (pid !== undefined) {
              this.pid = Number(pid)
              continue
            }
            if (typeof ready === 'string' && line.includes(ready)) resolve(line)
            recent.push(line)
            if (recent.length > 20) recent.shift()
          }
        })
      }
      guarding.on('error', reject)
      if (typeof ready === 'number') void listening(ready, exited).then(() => resolve(''))
      exited.then(
        () => reject(new Error(`${this.name} did not start:\n${recent.join('\n')}`)),
        () => {}
      )
    })
    void exited.then(
      ([code, signal]) => this.#restart(String(signal ?? code)),
      () => {}
    )
    return line
  }

  async #restart(end: string): Promise<void> {
    this.pid = 0
    while (!this.#stopping) {
      this.#say(`${this.name} has ended (${end}) and is started again.`)
      await sleep(pause)
      if (this.#stopping) return
      try {
        await this.start()
        return this.#say(`${this.name} runs again, as process ${this.pid}.`)
      } catch (error) {
        this.#say((error as Error).message)
      }
    }
  }

  /** Ends it in good order, once and for all; resolves when it is gone. */
  async stop(): Promise<void> {
    this.#stopping = true
    if (this.#guard?.stdin?.writable) this.#guard.stdin.write(`${this.#command.signals[0]}\n`)
    await this.#ended
  }

  /** Ends it at once. */
  kill(): void {
    this.#stopping = true
    this.#guard?.stdin?.end()
  }
}

/** Resolves when a port of loopback takes connections, or something has happened. */
async function listening(port: number, until: Promise<unknown>): Promise<void> {
  let over = false
  const end = (): void => void (over = true)
  until.then(end, end)
  while (!over && !(await takes(port))) await sleep(50)
}

/** Whether a port of loopback takes connections. */
export async function takes(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}
