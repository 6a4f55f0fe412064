// Disks that fail when a test says so, for a process that is started on one: disk.c is compiled and preloaded into it.
import { execFileSync, spawnSync } from 'node:child_process'
import {
  closeSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readSync,
  rmSync,
  writeSync
} from 'node:fs'
import { constants, tmpdir } from 'node:os'
import { basename, dirname, join, relative } from 'node:path'
import type { Test } from 'tap'

/** Why no disk can be made here; false where one can. */
export const noDisk: string | false =
  process.platform !== 'linux'
    ? 'only Linux has the preloading that this needs'
    : spawnSync('cc', ['-fsyntax-only', '-x', 'c', '-'], { input: '#include <stdlib.h>\n' }).status !== 0
      ? 'there is no C compiler: install gcc and libc6-dev'
      : false

type Failure = 'EIO' | 'ENOSPC'

/** What a disk does; what is left out works. */
export interface Trouble {
  /** Writes fail, half of them (EIO) after writing a part. */
  writes?: Failure
  /**
   * Syncs fail, and so do writes that are to be durable when they return. What was to be synced is lost when power is.
   */
  syncs?: Failure
  /** Only one of so many fails, by chance. */
  oneIn?: number
  /** Only so many fail, then everything seems well. */
  times?: number
  /** Milliseconds that each takes; `Infinity` until it is set again. */
  writeDelay?: number
  syncDelay?: number
  /** The process is killed in place of this write or sync, counted from now, from 1. */
  killAt?: number
}

/** In the order of disk.c. */
const fields = [
  'WRITE_ERROR',
  'SYNC_ERROR',
  'ONE_IN',
  'TIMES',
  'WRITE_DELAY',
  'SYNC_DELAY',
  'KILL_AT',
  'SEED',
  'WRITES',
  'SYNCS',
  'FAILED'
] as const

let library: string | undefined

/** Once per process, which removes it in the end. */
function compile(): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-disk-'))
  process.on('exit', () => rmSync(folder, { recursive: true }))
  const file = join(folder, 'disk.so')
  execFileSync('cc', [
    '-std=gnu11',
    '-O2',
    '-shared',
    '-fPIC',
    '-o',
    file,
    join(import.meta.dirname, 'disk.c'),
    '-ldl',
    '-lpthread'
  ])
  return file
}

/** The disk under one store: its database file, and all files and folders beside it that begin with the same name. */
export class Disk {
  /** For the environment of the process. */
  readonly env: Record<string, string>
  readonly #file: string
  readonly #platter: string
  readonly #control: number

  private constructor(file: string, library: string, folder: string, seed: number) {
    this.#file = file
    this.#platter = join(folder, 'platter')
    mkdirSync(this.#platter)
    const control = join(folder, 'control')
    this.#control = openSync(control, 'w+')
    this.#write(0, [0, 0, 0, -1, 0, 0, 0, seed, 0, 0, 0])
    this.env = {
      LD_PRELOAD: library,
      SLUICE_DISK_CONTROL: control,
      SLUICE_DISK_PATH: file,
      SLUICE_DISK_PLATTER: this.#platter
    }
  }

  /** Makes a sound disk for a store, which has what there is of it. Nobody may have the store open. */
  static make(t: Test, file: string, seed = 1): Disk {
    const folder = join(dirname(file), `disk-of-${basename(file)}`)
    mkdirSync(folder)
    const disk = new Disk(file, (library ??= compile()), folder, seed)
    t.teardown(() => closeSync(disk.#control))
    for (const name of disk.#names()) copyFileSync(join(dirname(file), name), disk.#onPlatter(name))
    return disk
  }

  /** The names of the store's files, from its folder on. */
  #names(): string[] {
    const folder = dirname(this.#file)
    return readdirSync(folder, { recursive: true, withFileTypes: true }).flatMap((entry) => {
      const name = relative(folder, join(entry.parentPath, entry.name))
      return entry.isFile() && name.startsWith(basename(this.#file)) && !isLock(name) ? [name] : []
    })
  }

  /** Where the platter, which is one folder, has a file. */
  #onPlatter(name: string): string {
    return join(this.#platter, name.replaceAll('/', '%'))
  }

  /** From now on it behaves so; without anything it is sound. */
  set({ writes, syncs, oneIn = 1, times = -1, writeDelay = 0, syncDelay = 0, killAt = 0 }: Trouble = {}): void {
    const error = (failure: Failure | undefined): number => (failure ? constants.errno[failure] : 0)
    const ms = (delay: number): number => Math.min(delay, 2 ** 31 - 1)
    this.#write(0, [error(writes), error(syncs), oneIn, times, ms(writeDelay), ms(syncDelay), killAt])
  }

  /** Calls since it was made, and how many of them failed. */
  get calls(): { writes: number; syncs: number; failed: number } {
    const bytes = Buffer.alloc(fields.length * 4)
    readSync(this.#control, bytes, 0, bytes.length, 0)
    const at = (name: (typeof fields)[number]): number => bytes.readInt32LE(fields.indexOf(name) * 4)
    return { writes: at('WRITES'), syncs: at('SYNCS'), failed: at('FAILED') }
  }

  /** The power is gone: the store's files become what the disk has of them. For when their process is dead. */
  losePower(): void {
    const folder = dirname(this.#file)
    for (const name of this.#names()) rmSync(join(folder, name))
    for (const flat of readdirSync(this.#platter)) {
      const name = flat.replaceAll('%', '/')
      if (isLock(name)) continue
      mkdirSync(dirname(join(folder, name)), { recursive: true })
      copyFileSync(join(this.#platter, flat), join(folder, name))
    }
  }

  #write(from: number, values: readonly number[]): void {
    const bytes = Buffer.alloc(values.length * 4)
    values.forEach((value, index) => bytes.writeInt32LE(value, index * 4))
    writeSync(this.#control, bytes, 0, bytes.length, from * 4)
  }
}

/** Whether a file only says whose the store is, which ends with its process. */
function isLock(name: string): boolean {
  return name.endsWith('.lock') || name.endsWith('.lock-journal')
}
