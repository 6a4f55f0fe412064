// The journal in segments: what was acknowledged is found by every later start, and what is damaged is not taken for a
// torn end.
import fs, {
  copyFileSync,
  cpSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync
} from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { openJournal, readStretch } from '../../../../../core/store/embedded/segments/state.ts'
import { surveyJournal } from '../../../../../core/store/embedded/segments/journal-survey.ts'
import { framesFrom } from '../../../../../core/store/embedded/segments/segment-head.ts'
import { chance } from '../../../../kit/chance.ts'
import { eventually } from '../../../../kit/probe.ts'
import { batchOf, shown, stateAfter, Writing } from './written.ts'

/** A start that reads, and what it has found. */
function read(folder: string): object {
  return shown(openJournal(folder, folder, 'process').fold)
}

function damageOf(folder: string): string {
  return surveyJournal(folder)
    .damage.map(({ file, text }) => `${file.slice(folder.length + 1)} ${text}`)
    .join('; ')
}

function segments(folder: string): string[] {
  return readdirSync(folder).filter((name) => name.startsWith('segment-'))
}

/** Segments that a start has written to. */
function begun(folder: string): string[] {
  return segments(folder).filter((name) => readFileSync(join(folder, name)).toString('latin1', 0, 8) === 'sluicesg')
}

t.test('several starts write several segments each, and each finds what was before', async (t) => {
  const folder = join(t.testdir(), 'journal')
  const starts: number[] = []
  for (let start = 1; start <= 4; start++) {
    const writing = new Writing(folder)
    const before = writing.last
    starts.push(before + 1)
    t.same(shown(writing.opened.fold), shown(stateAfter(before, starts.slice(0, -1))), `start ${start}`)
    await writing.go(60)
    await writing.log.close()
  }
  t.ok(begun(folder).length >= 8, segments(folder).join())
  t.same(read(folder), shown(stateAfter(240, starts)))
  t.same(read(folder), shown(stateAfter(240, starts)), 'and finds the same again')
})

t.test('a start that writes nothing leaves nothing behind that counts', async (t) => {
  const folder = join(t.testdir(), 'journal')
  for (let start = 1; start <= 3; start++) {
    const writing = new Writing(folder)
    await eventually(() => segments(folder).length === 1)
    await writing.log.close()
  }
  const writing = new Writing(folder)
  await writing.go(3)
  await writing.log.close()
  t.same(read(folder), shown(stateAfter(3, [1])))
})

t.test('frames larger than a segment, and a segment that is full before the next is ready', async (t) => {
  const folder = join(t.testdir(), 'journal')
  const writing = new Writing(folder, { sizes: { least: 4096, most: 8192 } })
  for (const text of [10, 20_000, 10, 300_000, 5]) await writing.append(batchOf(writing.last + 1, { text }))
  await writing.log.close()
  const { fold } = openJournal(folder, folder, 'process')
  t.equal(fold.place.batch, 5)
})

t.test('a segment that is ready is full of zeros, and its size stays', async (t) => {
  const folder = join(t.testdir(), 'journal')
  const writing = new Writing(folder, { durability: 'power' })
  await eventually(() => segments(folder).length === 1)
  const [name] = segments(folder)
  const path = join(folder, name!)
  t.same(readFileSync(path), Buffer.alloc(16 * 1024))
  await writing.go(3)
  t.equal(readFileSync(path).length, 16 * 1024)
  await writing.log.close()
})

t.test('the end of the last segment may be torn anywhere, in any of its blocks', async (t) => {
  const folder = join(t.testdir(), 'journal')
  const writing = new Writing(folder)
  await writing.go(3, 300)
  const path = join(folder, begun(folder).at(-1)!)
  const before = readFileSync(path)
  await writing.append(batchOf(4, { text: 9000 }))
  await writing.log.close()
  rmSync(join(folder, 'reach'), { force: true })
  const after = readFileSync(path)
  const from = 4096 * Math.floor(framesFrom / 4096)
  const [three, four] = [shown(stateAfter(3, [1])), openJournal(folder, folder, 'process').fold.place.hash]
  const size = Math.max(before.length, after.length)
  let torn = 0
  // Each set of pages of the last write: those that reached the disk, while the others are as they were.
  const pages = Array.from({ length: Math.ceil(size / 4096) }, (_, i) => 4096 * i).filter(
    (at) => at >= from && !after.subarray(at, at + 4096).equals(before.subarray(at, at + 4096))
  )
  t.ok(pages.length >= 3, `${pages.length} pages`)
  for (let set = 0; set < 2 ** pages.length; set++) {
    const bytes = Buffer.alloc(size)
    before.copy(bytes)
    for (const [i, at] of pages.entries()) if (set & (1 << i)) after.copy(bytes, at, at, at + 4096)
    writeFileSync(path, bytes)
    const { fold } = openJournal(folder, folder, 'process')
    if (fold.place.batch === 4) t.equal(fold.place.hash, four)
    else {
      torn++
      t.same(shown(fold), three, `pages ${set.toString(2)}`)
    }
  }
  t.equal(torn, 2 ** pages.length - 1, 'it is there when all pages are')
})

t.test('the first write of a segment may be torn too: the segment has not begun then', async (t) => {
  const base = t.testdir()
  const folder = join(base, 'journal')
  const first = new Writing(folder)
  await first.go(5)
  await first.log.close()
  const second = new Writing(folder)
  await second.append(batchOf(6, { text: 6000 }))
  const path = join(folder, begun(folder).at(-1)!)
  await second.log.close()
  rmSync(join(folder, 'reach'))
  const bytes = readFileSync(path)
  for (const length of [0, 10, 60, 4095, 4096, 4100, 5000, 8192, 10_000]) {
    const copy = join(base, `torn at ${length}`)
    cpSync(folder, copy, { recursive: true })
    const torn = Buffer.alloc(bytes.length)
    bytes.copy(torn, 0, 0, length)
    writeFileSync(join(copy, path.slice(folder.length)), torn)
    t.equal(damageOf(copy), '', `torn at ${length}`)
    const third = new Writing(copy)
    t.equal(third.last, 5, `torn at ${length}`)
    await third.append(batchOf(6))
    await third.log.close()
    t.equal(openJournal(copy, copy, 'process').fold.place.batch, 6)
  }
})

t.test('any damage before the end is found, and stops a start that changes nothing', async (t) => {
  const folder = join(t.testdir(), 'journal')
  const writing = new Writing(folder)
  await writing.go(110)
  await writing.log.close()
  const names = begun(folder)
  t.ok(names.length >= 4, names.join())
  const dice = chance(7)
  let found = 0
  for (let round = 0; round < 60; round++) {
    const name = dice.pick(names)
    const path = join(folder, name)
    const bytes = readFileSync(path)
    const used = bytes.findLastIndex((byte) => byte !== 0)
    const damaged = Buffer.from(bytes)
    const at = dice.below(used)
    damaged[at]! ^= 1 + dice.below(255)
    writeFileSync(path, damaged)
    const files = readdirSync(folder).join()
    // A page of the head has only zeros behind what it says.
    const idle = at >= 56 && at < framesFrom
    if (idle) t.equal(damageOf(folder), '', `${name} at ${at}`)
    else {
      found++
      t.not(damageOf(folder), '', `${name} at ${at}`)
      t.throws(() => openJournal(folder, folder, 'process'), /repair/, `${name} at ${at}`)
      t.equal(readdirSync(folder).join(), files)
    }
    writeFileSync(path, bytes)
  }
  t.ok(found > 20, `${found} times`)
  t.equal(damageOf(folder), '')
})

t.test('a file that is missing, cut, older, or of another copy is found', async (t) => {
  const base = t.testdir()
  const folder = join(base, 'journal')
  const writing = new Writing(folder)
  await writing.go(60)
  await writing.log.close()
  const early = join(base, 'early')
  cpSync(folder, early, { recursive: true })
  const again = new Writing(folder)
  await again.go(60)
  await again.log.close()
  const names = begun(folder)
  const last = names.at(-1)!
  const checks: [what: string, change: (copy: string) => void, says: RegExp][] = [
    [
      'first missing',
      (copy) => rmSync(join(copy, names[0]!)),
      /goes on behind batch \d+: batches 1 to \d+ are missing/
    ],
    ['middle missing', (copy) => rmSync(join(copy, names[1]!)), /are missing/],
    ['last missing', (copy) => rmSync(join(copy, last)), /^reach says that the journal went on to batch 120/],
    ['middle cut', (copy) => truncateSync(join(copy, names[1]!), 6000), /cut off behind byte .* next segment goes on/],
    ['last cut', (copy) => truncateSync(join(copy, last), 6000), /^reach says/],
    ['head of the last', (copy) => writeAt(join(copy, last), 30, 'x'), /says that the journal went on/],
    ['head of a middle one', (copy) => writeAt(join(copy, names[1]!), 30, 'x'), /goes on behind/],
    ['swapped', (copy) => swap(join(copy, names[0]!), join(copy, names[1]!)), /are missing/],
    ['an older last', (copy) => copyFileSync(join(early, begun(early).at(-1)!), join(copy, last)), /./]
  ]
  for (const [what, change, says] of checks) {
    const copy = join(base, what)
    cpSync(folder, copy, { recursive: true })
    change(copy)
    t.match(damageOf(copy), says, what)
  }
  // Both copies went on by themselves, and the end of one gets behind the beginning of the other.
  const fork = new Writing(early, {})
  await fork.append(batchOf(61, { text: 1 }))
  await fork.log.close()
  const third = new Writing(early)
  await third.go(2)
  await third.log.close()
  const foreign = begun(early).at(-1)!
  const mixed = join(base, 'mixed')
  cpSync(folder, mixed, { recursive: true })
  for (const name of names.filter((name) => name >= foreign)) rmSync(join(mixed, name))
  rmSync(join(mixed, 'reach'))
  cpSync(join(early, foreign), join(mixed, foreign))
  t.not(damageOf(mixed), '', 'a segment of a copy')
})

/** Makes writes fail, some of them after a part, until it is called. `which` gets the number of the call. */
function failWrites(t: Test, which: (call: number) => 'fails' | 'tears' | 'lies' | 'works'): () => void {
  const { write } = fs
  let calls = 0
  const heal = (): void => {
    fs.write = write
    syncBuiltinESMExports()
  }
  fs.write = ((...call: unknown[]) => {
    const [fd, bytes, from, length, at] = call as [number, Buffer, number, number, number]
    const done = call.at(-1) as (error: Error | null, count?: number) => void
    const what = at === 0 && length === 20 ? 'works' : which(++calls)
    if (what === 'works') return (write as (...call: unknown[]) => void)(...call)
    const part = what === 'fails' ? 0 : what === 'tears' ? Math.floor(length / 2) : length
    // What a failed write has written may be there or not: it was not acknowledged.
    if (part > 0) fs.writeSync(fd, bytes, from, part, at)
    process.nextTick(done, new Error('EIO: i/o error, write'))
  }) as typeof write
  syncBuiltinESMExports()
  t.teardown(heal)
  return heal
}

t.test('a write that failed is not repeated in its file: the batch goes to a new one', async (t) => {
  const folder = join(t.testdir(), 'journal')
  const dice = chance(3)
  const writing = new Writing(folder)
  let lost = 0
  const heal = failWrites(t, () => dice.pick(['works', 'works', 'fails', 'tears', 'lies']))
  for (let number = 1; number <= 80;) {
    // What is tried again may have changed, where somebody was told that it was not written.
    const batch = batchOf(number, { more: { documents: ['thing', 'a', `"try ${lost} of ${number}"`] } })
    try {
      await writing.append(batch)
      number++
    } catch (error) {
      t.match(error, { message: /EIO/ })
      lost++
      continue
    }
    if (number % 10) continue
    const { fold, stretches } = surveyJournal(folder)
    for (const stretch of stretches) readStretch(stretch, (frame) => fold.add(frame.batch, stretch.head))
    t.equal(fold.place.batch, batch.number)
    t.equal(fold.documents.values().next().value?.[2], batch.documents[2], 'and what was acknowledged counts')
  }
  heal()
  await writing.log.close()
  t.ok(lost > 30, `${lost} failures`)
  t.ok(begun(folder).length > 15, `${begun(folder).length} segments`)
  t.equal(openJournal(folder, folder, 'process').fold.place.batch, 80)
})

t.test('a segment whose write failed is closed once: its descriptor may be of another file by then', async (t) => {
  const folder = join(t.testdir(), 'journal')
  const writing = new Writing(folder)
  await writing.go(3)
  const heal = failWrites(t, () => 'fails')
  const { close } = fs
  const closed: number[] = []
  fs.close = ((fd: number, done: () => void) => {
    closed.push(fd)
    close(fd, done)
  }) as typeof close
  syncBuiltinESMExports()
  await t.rejects(writing.append(batchOf(4)), /EIO/)
  heal()
  await writing.log.close()
  fs.close = close
  syncBuiltinESMExports()
  t.equal(closed.length, 1)
})

t.test('a segment that is ready takes what comes while no other can be made, and its owner is told', async (t) => {
  const folder = join(t.testdir(), 'journal')
  const told: (string | undefined)[] = []
  const writing = new Writing(folder, { tell: (error) => told.push(error) })
  await eventually(() => segments(folder).length === 1)
  const next = join(folder, 'next.part')
  fs.mkdirSync(next)
  for (let number = 1; number <= 80; number++) await writing.append(batchOf(number, { text: 300 }))
  await eventually(() => told.length > 0)
  t.match(told[0], /EISDIR/)
  rmSync(next, { recursive: true })
  await eventually(async () => {
    await writing.append(batchOf(writing.last + 1))
    return told.includes(undefined)
  })
  await writing.log.close()
  t.equal(openJournal(folder, folder, 'process').fold.place.batch, writing.last)
})

t.test('a sealed segment is used again, and old frames in it do not count', async (t) => {
  const folder = join(t.testdir(), 'journal')
  const writing = new Writing(folder)
  await writing.go(100)
  const given = begun(folder).slice(0, -1)
  for (const name of given) {
    // What it has is elsewhere by now.
    rmSync(join(folder, name.replace('segment', 'kept')), { force: true })
    copyFileSync(join(folder, name), join(folder, name.replace('segment', 'kept')))
    writing.log.give(join(folder, name))
  }
  await writing.go(100)
  await writing.log.close()
  t.ok(begun(folder).length >= 4)
  for (const name of readdirSync(folder).filter((name) => name.startsWith('kept')))
    renameSync(join(folder, name), join(folder, name.replace('kept', 'segment')))
  t.same(read(folder), shown(stateAfter(200, [1])))
})

function writeAt(path: string, at: number, text: string): void {
  const bytes = readFileSync(path)
  bytes.write(text, at)
  writeFileSync(path, bytes)
}

function swap(one: string, other: string): void {
  renameSync(one, `${one}.away`)
  renameSync(other, one)
  renameSync(`${one}.away`, other)
}
