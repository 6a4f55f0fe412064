// Child processes of a run: started on a chosen CPU, asked questions over a channel, and ended by their own id.
import { execFileSync, spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { availableParallelism } from 'node:os'

/** `gateway` processes have one CPU to themselves, `rest` processes share another, and `anywhere` means both. */
export type Place = 'gateway' | 'rest' | 'anywhere'

const cpus: Readonly<Record<Place, string>> = { gateway: '1', rest: '0', anywhere: '0,1' }

const running = new Set<ChildProcess>()
const taskset = pinnable()

/** Whether processes are pinned to CPUs in this run, which takes two CPUs and `taskset`. */
export const pinned = taskset

/** A child process. The bench's own programs answer questions; others are only started and stopped. */
export class Child {
  readonly #process: ChildProcess
  readonly #name: string
  #stderr = ''
  #stopping = false

  private constructor(name: string, command: readonly string[], place: Place, channel: boolean) {
    const pin = taskset ? ['taskset', '-c', cpus[place]] : []
    const [file, ...args] = [...pin, ...command]
    this.#name = name
    this.#process = spawn(file!, args, { stdio: ['ignore', 'ignore', 'pipe', ...(channel ? ['ipc' as const] : [])] })
    running.add(this.#process)
    this.#process.once('exit', (code, signal) => {
      running.delete(this.#process)
      // A caller that waits for an answer gets this as an error.
      if (!this.#stopping && this.#process.listenerCount('message') === 0)
        process.stderr.write(`${this.#ending(code, signal)}\n`)
    })
    this.#process.stderr!.on('data', (text: Buffer) => {
      this.#stderr = (this.#stderr + text).slice(-2000)
    })
  }

  /**
   * Starts one of the bench's own programs, or a file given by its full path, and waits for its first message, which is
   * the `ready` object that {@link serve} was given.
   */
  static async start<Ready>(
    entry: string,
    args: readonly string[],
    place: Place,
    flags: readonly string[] = []
  ): Promise<{ child: Child; ready: Ready }> {
    const file = new URL(entry, import.meta.url).pathname
    const child = new Child(
      entry,
      [process.execPath, '--disable-warning=ExperimentalWarning', ...flags, file, ...args],
      place,
      true
    )
    return { child, ready: await child.#next<Ready>() }
  }

  /** Starts a program that is not part of the bench. */
  static program(command: readonly string[], place: Place): Child {
    return new Child(command[0]!, command, place, false)
  }

  get pid(): number {
    return this.#process.pid!
  }

  /** Asks one question and resolves with the answer. One question at a time. Rejects when the process ends instead. */
  ask<Answer>(question: object): Promise<Answer> {
    const answer = this.#next<Answer>()
    this.#process.send(question)
    return answer
  }

  /** Asks the process to end by SIGTERM and waits for it; kills it after `patience` milliseconds. */
  async stop(patience = 3000): Promise<void> {
    if (!running.has(this.#process)) return
    this.#stopping = true
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#process.once('exit', () => resolve())
    const timer = setTimeout(() => this.#process.kill('SIGKILL'), patience)
    this.#process.kill('SIGTERM')
    await promise
    clearTimeout(timer)
  }

  #ending(code: number | null, signal: string | null): string {
    return `${this.#name} ended with ${signal ?? `code ${code}`}: ${this.#stderr.trim() || 'no output'}`
  }

  #next<Answer>(): Promise<Answer> {
    const { promise, resolve, reject } = Promise.withResolvers<Answer>()
    const process = this.#process
    const onMessage = (message: unknown) => {
      process.off('exit', onExit)
      resolve(message as Answer)
    }
    const onExit = (code: number | null, signal: string | null) => {
      process.off('message', onMessage)
      reject(new Error(this.#ending(code, signal)))
    }
    process.once('message', onMessage)
    process.once('exit', onExit)
    return promise
  }
}

/**
 * The child's side of the channel: sends `ready`, then answers each question in turn. The child ends when its parent
 * does.
 */
export function serve<Question>(ready: object, answer: (question: Question) => object | Promise<object>): void {
  process.on('message', async (question) => {
    process.send!(await answer(question as Question))
  })
  process.once('disconnect', () => process.kill(process.pid, 'SIGKILL'))
  process.send!(ready)
}

/** Kills every child process that is still running. */
export function killAll(): void {
  for (const child of running) child.kill('SIGKILL')
}

/** Moves this process to the CPU of the rest, and with it every child that is not placed elsewhere. */
export function pinSelf(): void {
  if (taskset) execFileSync('taskset', ['-acp', cpus.rest, String(process.pid)], { stdio: 'ignore' })
}

function pinnable(): boolean {
  if (availableParallelism() < 2) return false
  try {
    execFileSync('taskset', ['--version'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}
