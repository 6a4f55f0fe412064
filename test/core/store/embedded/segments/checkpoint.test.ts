// Checkpoints: a start from one is a start from the beginning, the one before stands in for a damaged one, and a kill
// or a full disk leaves those that were there.
import fs, { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createHash } from 'node:crypto'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { Checkpoints, readCheckpoint } from '../../../../../core/store/embedded/segments/checkpoint.ts'
import { Fold } from '../../../../../core/store/embedded/segments/fold.ts'
import { prepareFolder } from '../../../../../core/store/embedded/segments/folder.ts'
import { surveyJournal } from '../../../../../core/store/embedded/segments/journal-survey.ts'
import { openJournal } from '../../../../../core/store/embedded/segments/state.ts'
import { emptyBatch } from '../../../../../core/store/embedded/rows/batch.ts'
import { chance } from '../../../../kit/chance.ts'
import { capture } from './captured.ts'
import { batchOf, historyOf, shown, stateAfter, Writing } from './written.ts'

const names = (folder: string): string[] => readdirSync(folder).filter((name) => name.startsWith('checkpoint-'))

t.test('a fold that goes on from a checkpoint, wherever that is, comes to the same state', async (t) => {
  const folder = join(t.testdir(), 'journal')
  const dice = chance(11)
  const batches = await capture(join(t.testdirName, 'sluice.db'), dice, 3, 150)
  prepareFolder(folder)
  const whole = new Fold()
  let broken = new Fold()
  const checkpoints = new Checkpoints(folder, 'process')
  let count = 0
  for (const { batch, start } of batches) {
    whole.add(batch, start)
    broken.add(batch, start)
    if (dice.below(8) > 0) continue
    checkpoints.write(broken)
    count++
    broken = readCheckpoint(join(folder, names(folder).at(-1)!))
    t.same(shown(broken), shown(whole), `after batch ${batch.number}`)
  }
  t.ok(count > 5, `${count} checkpoints`)
  t.same(names(folder).length, 2)
  t.same(shown(broken), shown(whole))
})

t.test('nothing ends twice, also behind a checkpoint', (t) => {
  const folder = join(t.testdir(), 'journal')
  prepareFolder(folder)
  let fold = stateAfter(5, [1])
  const checkpoints = new Checkpoints(folder, 'process')
  const again = (number: number): (() => void) => {
    const { entries } = batchOf(4)
    const batch = { ...emptyBatch(number, 1), entries }
    return () => fold.add(batch, { boot: 1, history: historyOf(1) })
  }
  t.throws(again(6), /batch 6 cannot follow .* request 3 has ended already/)
  for (const batch of [5, 6]) {
    fold = stateAfter(batch, [1])
    checkpoints.write(fold)
  }
  fold = readCheckpoint(join(folder, names(folder).at(-1)!))
  t.throws(again(7), /request 3 has ended already/)
  fold = stateAfter(5, [1])
  t.throws(() => fold.add(batchOf(7), { boot: 1, history: historyOf(1) }), /batch 7 does not follow batch 5/)
  const held = { ...emptyBatch(6, 1), opened: batchOf(5).opened }
  t.throws(() => fold.add(held, { boot: 1, history: historyOf(1) }), /request 5 is held already/)
  t.end()
})

t.test('a start takes the newest sound checkpoint, and what follows; both may be damaged', async (t) => {
  const base = t.testdir()
  const folder = join(base, 'journal')
  const writing = new Writing(folder)
  const { checkpoints } = writing.opened
  for (const last of [20, 45, 70]) {
    await writing.go(last - writing.last)
    checkpoints.write(stateAfter(last, [1]))
  }
  await writing.go(13)
  await writing.log.close()
  t.same(surveyJournal(folder).sound, [70, 45])
  const state = shown(stateAfter(83, [1]))
  const opened = openJournal(folder, folder, 'process')
  t.same(shown(opened.fold), state)
  t.ok(opened.tail > 13 * 500 && opened.tail < 20 * 1500, `${opened.tail} bytes behind it`)
  const dice = chance(5)
  for (const damaged of [[1], [0], [0, 1]]) {
    const copy = join(base, `damaged ${damaged.join()}`)
    cpSync(folder, copy, { recursive: true })
    for (const i of damaged) {
      const path = join(copy, names(copy)[i]!)
      const bytes = readFileSync(path)
      bytes[dice.below(bytes.length)]! ^= 4
      writeFileSync(path, bytes)
    }
    const start = new Writing(copy)
    t.same(shown(start.opened.fold), state)
    t.equal(start.opened.passed.length, damaged.length)
    await start.go(1)
    const fold = stateAfter(84, [1, 84])
    start.opened.checkpoints.write(fold)
    await start.log.close()
    const { sound, passed } = surveyJournal(copy)
    t.same([sound, passed], [[84, ...[70, 45].filter((_, i) => !damaged.includes(1 - i))].slice(0, 2), []])
  }
})

t.test('a checkpoint that knows more than the frames stops a start', async (t) => {
  const base = t.testdir()
  const folder = join(base, 'journal')
  const writing = new Writing(folder)
  await writing.go(60)
  const early = join(base, 'early')
  cpSync(folder, early, { recursive: true })
  await writing.go(30)
  writing.opened.checkpoints.write(stateAfter(90, [1]))
  await writing.log.close()
  for (const name of names(folder)) cpSync(join(folder, name), join(early, name))
  t.match(surveyJournal(early).damage, [{ text: /does not have batch 90, which a checkpoint includes/ }])
  const bare = join(base, 'bare')
  cpSync(folder, bare, { recursive: true })
  for (const name of readdirSync(bare)) if (name.startsWith('segment-')) rmSync(join(bare, name))
  t.match(surveyJournal(bare).damage, [{ text: /no segment and no volume with batch 90/ }])
})

/** Makes one call fail: the one before which so many were made. Returns how many were made, when it is ended. */
function failAt(
  t: Test,
  name: 'writeSync' | 'fsyncSync' | 'closeSync' | 'renameSync' | 'openSync',
  at: number
): () => number {
  const real = fs[name] as (...call: unknown[]) => unknown
  let calls = 0
  const end = (): number => {
    ;(fs as unknown as Record<string, unknown>)[name] = real
    syncBuiltinESMExports()
    return calls
  }
  ;(fs as unknown as Record<string, unknown>)[name] = (...call: unknown[]): unknown => {
    if (calls++ === at) throw Object.assign(new Error(`ENOSPC: no space left on device, ${name}`), { code: 'ENOSPC' })
    return real(...call)
  }
  syncBuiltinESMExports()
  t.teardown(end)
  return end
}

t.test('a checkpoint that cannot be written leaves those before it, whichever call fails', async (t) => {
  const folder = join(t.testdir(), 'journal')
  const writing = new Writing(folder, { durability: 'power' })
  const { checkpoints } = writing.opened
  await writing.go(30)
  checkpoints.write(stateAfter(10, [1]))
  checkpoints.write(stateAfter(20, [1]))
  await writing.log.close()
  const power = new Checkpoints(folder, 'power', [20, 10])
  let failures = 0
  for (const name of ['openSync', 'writeSync', 'fsyncSync', 'closeSync', 'renameSync'] as const)
    for (let at = 0; ; at++) {
      const end = failAt(t, name, at)
      let failed = false
      try {
        power.write(stateAfter(30, [1]))
      } catch {
        failed = true
      }
      if (end() <= at) {
        t.notOk(failed)
        for (const file of names(folder)) if (file.endsWith('30')) rmSync(join(folder, file))
        writeCheckpoints(folder)
        break
      }
      failures++
      const { sound, passed, damage } = surveyJournal(folder)
      t.same([passed, damage], [[], []], `${name} ${at}`)
      t.ok(sound.length >= 2, `${name} ${at}: ${sound.join()}`)
    }
  t.ok(failures > 10, `${failures} failures`)
})

/** Those after batches 10 and 20, anew. */
function writeCheckpoints(folder: string): void {
  const checkpoints = new Checkpoints(folder, 'process')
  for (const last of [10, 20]) checkpoints.write(stateAfter(last, [1]))
}

t.test('a checkpoint of a newer version is refused, and not taken for damage', async (t) => {
  const folder = join(t.testdir(), 'journal')
  const writing = new Writing(folder)
  await writing.go(3)
  writing.opened.checkpoints.write(stateAfter(3, [1]))
  await writing.log.close()
  const path = join(folder, names(folder)[0]!)
  const bytes = readFileSync(path)
  bytes.writeUInt32BE(3, 8)
  createHash('sha256')
    .update(bytes.subarray(0, -32))
    .digest()
    .copy(bytes, bytes.length - 32)
  writeFileSync(path, bytes)
  t.throws(() => surveyJournal(folder), /format 3, which this program does not know/)
})
