// The place of one process in the folder of its machine: the names that it and its workers have as nodes, and the logs.
import { randomBytes } from 'node:crypto'
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  writeSync
} from 'node:fs'
import { join } from 'node:path'
import { syncDirectory } from '../embedded/files/directory.ts'
import { connect, failedWith } from '../embedded/files/sqlite.ts'
import type { Database } from '../embedded/files/sqlite.ts'

/** The name of a node, and the folder of its log. */
export interface NodePlace {
  readonly name: string
  readonly log: string
}

/** How long it is waited for a lock that another process may be taking, in milliseconds. */
const lockWait = 100

/**
 * A slot: a folder `node-1`, `node-2` and so on, which one process has at a time. The kernel ends the lock with the
 * process. The name is made by chance and stays with the slot, so that whoever has it next ends what was left open; the
 * name of the host is no name, as containers and copies of a machine share it. Workers of the process are nodes, too,
 * `name/1` and so on, which lie in the slot: who has that has all of them.
 */
export class NodeSlot implements NodePlace {
  /** The name of the node, which no other slot of any machine has. */
  readonly name: string
  readonly #folder: string
  readonly #lock: Database

  private constructor(folder: string, lock: Database) {
    this.#folder = folder
    this.#lock = lock
    this.name = nameIn(folder)
  }

  /**
   * Takes the first slot of a folder that nobody has, and makes one where all are taken.
   * @throws Error when the folder cannot be written
   */
  static take(folder: string): NodeSlot {
    for (let number = 1; ; number++) {
      const slot = NodeSlot.#try(join(folder, `node-${number}`))
      if (slot) return slot
    }
  }

  /** Takes the slots that nobody has, and whose last process has left something in one of its logs. */
  static abandoned(folder: string): NodeSlot[] {
    return readdirSync(folder)
      .filter((name) => /^node-\d+$/.test(name) && logsIn(join(folder, name)).some(hasFiles))
      .flatMap((name) => NodeSlot.#try(join(folder, name)) ?? [])
  }

  /** The folder of the log. */
  get log(): string {
    return logIn(this.#folder)
  }

  /** The node of a worker, by its number from 1 on. */
  worker(number: number): NodePlace {
    return { name: `${this.name}/${number}`, log: logIn(workerIn(this.#folder, number)) }
  }

  /** The nodes that have something in their logs, without the process itself and so many of its workers. */
  left(workers = 0): NodePlace[] {
    return workersIn(this.#folder)
      .filter((number) => number > workers)
      .map((number) => this.worker(number))
      .filter(({ log }) => hasFiles(log))
  }

  /** Leaves it to the next process. */
  release(): void {
    this.#lock.close()
  }

  static #try(folder: string): NodeSlot | undefined {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    const lock = connect(join(folder, 'lock'), { timeout: lockWait })
    try {
      lock.exec('BEGIN IMMEDIATE')
      return new NodeSlot(folder, lock)
    } catch (error) {
      lock.close()
      if (failedWith(error, 'busy')) return undefined
      throw error
    }
  }
}

function logIn(folder: string): string {
  return join(folder, 'log')
}

function workerIn(folder: string, number: number): string {
  return join(folder, `worker-${number}`)
}

/** The numbers of the workers that a slot has had. */
function workersIn(folder: string): number[] {
  return readdirSync(folder).flatMap((name) => {
    const number = /^worker-(\d+)$/.exec(name)?.[1]
    return number === undefined ? [] : Number(number)
  })
}

function logsIn(folder: string): string[] {
  return [logIn(folder), ...workersIn(folder).map((number) => logIn(workerIn(folder, number)))]
}

function hasFiles(log: string): boolean {
  return existsSync(log) && readdirSync(log).length > 0
}

/** Reads the name of a slot, and makes it at the first time. Whoever calls this has the lock. */
function nameIn(folder: string): string {
  const file = join(folder, 'name')
  if (existsSync(file)) {
    const name = readFileSync(file, 'utf8').trim()
    if (!/^node-[0-9a-f]{16}$/.test(name))
      throw new Error(`${file} is damaged: remove ${folder}, unless its log has charges that PostgreSQL lacks`)
    return name
  }
  const name = `node-${randomBytes(8).toString('hex')}`
  const fd = openSync(`${file}.new`, 'w', 0o600)
  try {
    writeSync(fd, `${name}\n`)
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
  renameSync(`${file}.new`, file)
  syncDirectory(folder)
  return name
}
