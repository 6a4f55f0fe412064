// Damages copies of stores, and sees to it that nothing of them is lost without a word, by a start or by a repair.
import { hash } from 'node:crypto'
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import t from 'tap'
import { planRepair, repair } from '../../core/store/embedded/care/repair.ts'
import type { RepairPlan } from '../../core/store/embedded/care/repair.ts'
import { verify } from '../../core/store/embedded/care/verify/verify.ts'
import { Ownership } from '../../core/store/embedded/files/lock.ts'
import { openStore } from '../../core/store/embedded/store.ts'
import { query } from '../core/store/embedded/sample.ts'

/** A store as it was left, an earlier image of it, and what had been acknowledged. */
export interface Image {
  readonly folder: string
  readonly older: string
  readonly charges: ReadonlyMap<string, bigint>
}

/** What is done to a file. Returns false when that changes nothing. */
export type Harm = (path: string, older: string) => boolean

/** Changes the bytes of a file. */
export const edit =
  (change: (bytes: Buffer) => Buffer): Harm =>
  (path) => {
    if (!existsSync(path)) return false
    const bytes = readFileSync(path)
    const changed = change(Buffer.from(bytes))
    writeFileSync(path, changed)
    return !changed.equals(bytes)
  }

/** All kinds of harm. */
export function harmsBy(random: (below: number) => number): Readonly<Record<string, Harm>> {
  /** Turns one bit around, at a part of the file or of the bytes that are not zero. */
  const flip = (part: number): Harm =>
    edit((bytes) => {
      let end = bytes.length
      while (end > 0 && bytes[end - 1] === 0) end--
      if (end > 0) bytes[Math.min(end - 1, Math.floor(end * part))]! ^= 1 << random(8)
      return bytes
    })
  return {
    missing: (path) => existsSync(path) && (rmSync(path), true),
    empty: edit(() => Buffer.alloc(0)),
    'cut in half': edit((bytes) => bytes.subarray(0, bytes.length >> 1)),
    'without its last bytes': edit((bytes) => bytes.subarray(0, -40)),
    'a bit at its beginning': flip(0.001),
    'a bit in the middle': flip(0.5),
    'a bit near its end': flip(0.97),
    'its last byte': flip(1),
    'a page of zeros': edit((bytes) => bytes.fill(0, Math.min(bytes.length, 8192), Math.min(bytes.length, 12288))),
    older: (path, older) =>
      existsSync(path) &&
      existsSync(older) &&
      !readFileSync(path).equals(readFileSync(older)) &&
      (cpSync(older, path), true)
  }
}

/** What became of a damaged store. `lost`: acknowledged charges that are not in the journal with their amount. */
export interface Outcome {
  readonly refused: string | undefined
  readonly breaches: readonly string[]
  readonly lost: number
}

/** The files of a folder, by their names and digests. A write-ahead log without anything is made by whoever reads. */
export function filesIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !/-shm|\.lock/.test(entry.name))
    .map(({ name, parentPath }) => ({ name, bytes: readFileSync(join(parentPath, name)) }))
    .filter(({ name, bytes }) => !(name.endsWith('-wal') && bytes.length === 0))
    .map(({ name, bytes }) => `${name} ${hash('sha256', bytes)}`)
    .sort()
}

/** What each request was charged; nothing of a journal that cannot be read to its end. */
function endsIn(file: string): ReadonlyMap<unknown, unknown> {
  try {
    const ends = query(file, "SELECT request_id, amount FROM journal WHERE class = 'terminal'")
    return new Map(ends.map((row) => [row['request_id'], row['amount']]))
  } catch {
    return new Map()
  }
}

/** Starts a store, and ends it. */
export async function outcomeOf(file: string, expected: ReadonlyMap<string, bigint>): Promise<Outcome> {
  try {
    await (await openStore({ file, durability: 'process' })).close()
  } catch (error) {
    return { refused: (error as Error).message, breaches: [], lost: 0 }
  }
  const stored = endsIn(file)
  const lost = [...expected].filter(([id, amount]) => stored.get(id) !== amount).length
  return { refused: undefined, breaches: verify(file).map(({ invariant, row }) => `${invariant} ${row}`), lost }
}

/** Damages one copy after the other. */
export class Trials {
  readonly counts = { mended: 0, saved: 0, without: 0 }
  readonly #home: string
  readonly #filesOf: (folder: string) => readonly string[]
  #trials = 0

  /** `filesOf` names the files that a start which refuses must leave, whether they are there or not. */
  constructor(home: string, filesOf: (folder: string) => readonly string[]) {
    this.#home = home
    this.#filesOf = filesOf
  }

  /** Nothing is lost without a word. Returns what happened, undefined when the damage changed nothing. */
  async run(image: Image, what: string, harm: (folder: string) => boolean): Promise<Outcome | undefined> {
    const folder = join(this.#home, `trial-${this.#trials++}`)
    cpSync(image.folder, folder, { recursive: true })
    const file = join(folder, 'sluice.db')
    if (!harm(folder)) return undefined
    const left = this.#filesOf(folder).filter((path) => statSync(path, { throwIfNoEntry: false })?.size)
    const outcome = await outcomeOf(file, image.charges)
    const { refused, breaches, lost } = outcome
    if (refused === undefined) {
      if (lost > 0 && breaches.length === 0) t.fail(`${what}: ${lost} charges are lost, and nobody says so`)
    } else if (!refused.includes(file)) t.fail(`${what}: the refusal names no file: ${refused}`)
    else
      for (const path of left)
        if (!existsSync(path)) t.fail(`${what}: a start that refused took ${basename(path)} away`)
    if (refused !== undefined) await this.#mend(what, folder, image.charges, refused)
    if (process.env['SLUICE_LONG'])
      t.comment(`${what}: ${refused ?? (breaches.length > 0 ? breaches.slice(0, 2).join(', ') : 'nothing is lost')}`)
    rmSync(folder, { recursive: true })
    return outcome
  }

  /** A repair changes nothing until it is told to, loses no more than it says, and leaves a store that starts. */
  async #mend(what: string, folder: string, expected: ReadonlyMap<string, bigint>, first: string): Promise<void> {
    const file = join(folder, 'sluice.db')
    const owner = Ownership.take(file, { damaged: true })
    let plan: RepairPlan | undefined
    try {
      const before = filesIn(folder)
      plan = planRepair(file)
      if (!plan) return void t.fail(`${what}: refused, and nothing to repair: ${first}`)
      if (filesIn(folder).join() !== before.join()) t.fail(`${what}: looking changed the files`)
      const sizes = plan.aside.map((path) => statSync(path).size)
      const aside = repair(file, plan, Date.now())
      if (plan.aside.some((path, index) => statSync(join(aside, basename(path))).size !== sizes[index]))
        t.fail(`${what}: what was put aside is not whole`)
    } catch (error) {
      if (!/bring back a backup/i.test((error as Error).message)) t.fail(`${what}: ${String(error)}`)
      this.counts.without++
      return
    } finally {
      owner.release()
    }
    const { refused, breaches, lost } = await outcomeOf(file, expected)
    // Where a price is lost, nobody can say what is due at it.
    const wrong = breaches.filter((breach) => !(breach.startsWith('I4 journal') && plan.lost.length > 0))
    if (refused !== undefined || wrong.length > 0) t.fail(`${what}: mended, and ${refused ?? wrong.join(', ')}`)
    const told =
      plan.lost.length > 0 ||
      plan.base !== 'whole' ||
      plan.foreign.batches > 0 ||
      plan.damage.some(({ text }) => text.includes('older'))
    if (lost > 0 && !told) t.fail(`${what}: the repair lost ${lost} charges and did not say so`)
    this.counts.mended++
    if (lost === 0) this.counts.saved++
  }
}
