// Volumes: they have the frames of their segment and what those add up to, stand in for it at a start, and show damage.
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { Keeper } from '../../../../../core/store/embedded/segments/keeper.ts'
import { listNumbered, pathOf } from '../../../../../core/store/embedded/segments/folder.ts'
import { surveyJournal } from '../../../../../core/store/embedded/segments/journal-survey.ts'
import { openJournal } from '../../../../../core/store/embedded/segments/state.ts'
import { checkVolume } from '../../../../../core/store/embedded/segments/sealing.ts'
import { Volume } from '../../../../../core/store/embedded/segments/volume.ts'
import { chance } from '../../../../kit/chance.ts'
import { shown, stateAfter, Writing } from './written.ts'

/** A journal of two starts, all segments of it but the last one sealed. */
async function sealed(folder: string): Promise<void> {
  for (const count of [100, 60]) {
    const writing = new Writing(folder)
    await writing.go(count)
    await writing.log.close()
  }
  const keeper = new Keeper(folder, openJournal(folder, folder, 'power'), 'power')
  while (keeper.seal());
}

function volumes(folder: string): Volume[] {
  return listNumbered(folder).flatMap(({ kind, path }) => (kind === 'volume' ? [new Volume(path)] : []))
}

t.test('a volume has the frames of its segment, and says what they add up to', async (t) => {
  const folder = join(t.testdir(), 'journal')
  await sealed(folder)
  const all = volumes(folder)
  t.ok(all.length >= 4, `${all.length} volumes`)
  const charged = new Map<string, bigint>()
  for (const [i, volume] of all.entries()) {
    const { contents } = volume
    t.equal(checkVolume(volume), undefined)
    const numbers = [...volume.frames(0)].map(({ batch }) => batch.number)
    t.same(
      [numbers[0], numbers.at(-1), numbers.length],
      [contents.after + 1, contents.last, contents.last - contents.after]
    )
    t.same([...volume.frames(contents.last - 2)].length, 2, 'from anywhere on')
    const before = stateAfter(contents.after, [1, 101]).place
    const after = stateAfter(contents.last, [1, 101]).place
    t.match(contents, { seqBefore: before.seq, hashBefore: before.hash, seq: after.seq, hash: after.hash })
    t.match(contents, { written: after.written, boot: after.boot, history: after.history })
    if (i > 0) t.equal(contents.hashBefore, all[i - 1]!.contents.hash)
    for (let at = 0; at < volume.charged.length; at += 3) {
      const name = `${volume.charged[at] as string} ${volume.charged[at + 1] as string}`
      charged.set(name, (charged.get(name) ?? 0n) + (volume.charged[at + 2] as bigint))
    }
  }
  const { balances } = stateAfter(all.at(-1)!.contents.last, [1, 101])
  for (const { scope, window, posted } of balances)
    if (posted !== 0n) t.equal(charged.get(`${scope} ${window}`), posted, `${scope} ${window}`)
})

t.test(
  'a volume is made in steps, and frames are followed in between; one that is broken off is made anew',
  async (t) => {
    const folder = join(t.testdir(), 'journal')
    const writing = new Writing(folder, { sizes: { least: 1024 * 1024, most: 1024 * 1024 } })
    const keeper = new Keeper(folder, writing.opened, 'power')
    await writing.go(400, 4000)
    keeper.follow(writing.log.taken())
    let steps = 0
    for (; steps < 3; steps++) t.same(keeper.seal(), {})
    t.same(
      listNumbered(folder).filter(({ kind }) => kind === 'volume'),
      [],
      'it has no place before it is whole'
    )
    await writing.go(10)
    keeper.follow(writing.log.taken())
    t.equal(keeper.fold.place.batch, 410)
    keeper.close()
    t.same(
      readdirSync(folder).filter((name) => name.endsWith('.part') && name.startsWith('volume')),
      [],
      'nothing of it is left'
    )
    const next = new Keeper(folder, openJournal(folder, folder, 'power'), 'power')
    let made: Volume | undefined
    for (steps = 0; !made; steps++) made = next.seal()?.volume
    t.ok(steps > 6, `${steps} steps, of which each read or wrote a block`)
    t.equal(checkVolume(made), undefined)
    next.close()
    await writing.log.close()
  }
)

t.test('a start finds the same with segments, with volumes, or with both', async (t) => {
  const base = t.testdir()
  const folder = join(base, 'journal')
  await sealed(folder)
  const state = shown(stateAfter(160, [1, 101]))
  t.same(shown(openJournal(folder, folder, 'process').fold), state)
  for (const { contents } of volumes(folder)) rmSync(pathOf(folder, 'segment', contents.ordinal))
  t.same(shown(openJournal(folder, folder, 'process').fold), state)
  const writing = new Writing(folder)
  t.ok(writing.opened.ordinal > volumes(folder).at(-1)!.contents.ordinal)
  await writing.go(10)
  writing.opened.checkpoints.write(stateAfter(170, [1, 101, 161]))
  await writing.log.close()
  t.same(shown(openJournal(folder, folder, 'process').fold), shown(stateAfter(170, [1, 101, 161])))
  // From the middle of a volume.
  const middle = volumes(folder)[2]!.contents
  const half = stateAfter(middle.after + 2, [1, 101])
  rmSync(pathOf(folder, 'checkpoint', 170))
  new Writing(folder).opened.checkpoints.write(half)
  const opened = openJournal(folder, folder, 'process')
  t.same(shown(opened.fold), shown(stateAfter(170, [1, 101, 161])))
})

t.test('whatever byte of a volume is changed, its check says so; without its segment a start does too', async (t) => {
  const base = t.testdir()
  const folder = join(base, 'journal')
  await sealed(folder)
  const [, second] = volumes(folder)
  const bytes = readFileSync(second!.path)
  const dice = chance(9)
  rmSync(pathOf(folder, 'segment', second!.contents.ordinal))
  for (let round = 0; round < 40; round++) {
    const damaged = Buffer.from(bytes)
    const at = dice.below(bytes.length)
    damaged[at]! ^= 1 + dice.below(255)
    writeFileSync(second!.path, damaged)
    let said: string | undefined
    try {
      said = checkVolume(new Volume(second!.path))
    } catch (error) {
      said = (error as Error).message
    }
    t.ok(said, `byte ${at}`)
    // The digest alone is of no use to a start.
    if (at < bytes.length - 32) t.throws(() => openJournal(folder, folder, 'process'), `byte ${at}`)
  }
  writeFileSync(second!.path, bytes)
  t.equal(openJournal(folder, folder, 'process').fold.place.batch, 160)
})

t.test('a damaged volume is made again of its segment, which stays until then', async (t) => {
  const folder = join(t.testdir(), 'journal')
  await sealed(folder)
  const segmentsOf = (of: readonly Volume[]): string[] =>
    of.map(({ contents }) => pathOf(folder, 'segment', contents.ordinal))
  const [first, second, third, fourth, ...others] = volumes(folder) as [Volume, Volume, Volume, Volume, ...Volume[]]
  const damaged = [first, third, fourth]
  for (const { path } of damaged) truncateSync(path, 100)
  const opened = openJournal(folder, folder, 'power')
  for (const batch of [159, 160]) opened.checkpoints.write(stateAfter(batch, [1, 101]))
  const keeper = new Keeper(folder, opened, 'power')
  t.same(keeper.spent(), segmentsOf([second, ...others]))
  const made: number[] = []
  for (let step = keeper.seal(); step; step = keeper.seal()) if (step.volume) made.push(step.volume.contents.ordinal)
  t.same(
    made,
    damaged.map(({ contents }) => contents.ordinal)
  )
  for (const volume of volumes(folder)) t.equal(checkVolume(volume), undefined)
  t.same(keeper.spent(), segmentsOf(damaged))
  for (const path of segmentsOf(volumes(folder))) rmSync(path)
  t.same(shown(openJournal(folder, folder, 'power').fold), shown(stateAfter(160, [1, 101])))
})

t.test('a segment that changed after it was written gets no volume', async (t) => {
  const folder = join(t.testdir(), 'journal')
  await sealed(folder)
  const [first] = volumes(folder)
  const opened = openJournal(folder, folder, 'power')
  rmSync(first!.path)
  const segment = pathOf(folder, 'segment', first!.contents.ordinal)
  truncateSync(segment, 8192)
  const keeper = new Keeper(folder, { ...opened, volumes: opened.volumes.slice(1) }, 'power')
  for (const again of [1, 2])
    t.throws(
      () => {
        while (keeper.seal());
      },
      new RegExp(`${segment} ends with batch \\d+, and had batch ${first!.contents.last}: it was changed`),
      `${again}`
    )
  t.notOk(existsSync(first!.path))
  t.same(keeper.spent(), [])
})

t.test('a volume of frames that were followed is the one that is made of reading them again', async (t) => {
  const folder = join(t.testdir(), 'journal')
  const writing = new Writing(folder)
  const keeper = new Keeper(folder, writing.opened, 'power')
  for (const count of [1, 30, 70, 40]) {
    await writing.go(count)
    keeper.follow(writing.log.taken())
  }
  await writing.log.close()
  while (keeper.seal());
  keeper.close()
  const made = volumes(folder)
  t.ok(made.length >= 4, `${made.length} volumes`)
  const bytes = made.map(({ path }) => readFileSync(path))
  for (const { path } of made) rmSync(path)
  const reading = new Keeper(folder, openJournal(folder, folder, 'power'), 'power')
  while (reading.seal());
  t.same(
    made.map(({ path }) => readFileSync(path)),
    bytes
  )
})

t.test('a segment that changed after it was followed gets no volume', async (t) => {
  const folder = join(t.testdir(), 'journal')
  const writing = new Writing(folder)
  const keeper = new Keeper(folder, writing.opened, 'power')
  await writing.go(100)
  const taken = writing.log.taken()
  keeper.follow(taken)
  const [{ path, last }] = taken as [(typeof taken)[number]]
  const whole = readFileSync(path)
  for (const at of [4096 + 40, 8192]) {
    const changed = Buffer.from(whole)
    changed[at]! ^= 1
    writeFileSync(path, changed)
    t.throws(
      () => {
        while (keeper.seal());
      },
      new RegExp(`${path} ends with batch \\d+, and had batch ${last}: it was changed`),
      `byte ${at}`
    )
    t.same(volumes(folder), [])
  }
  writeFileSync(path, whole)
  while (keeper.seal());
  t.equal(checkVolume(volumes(folder)[0]!), undefined)
  keeper.close()
  await writing.log.close()
})

t.test('a volume whose rows do not add up, or continue nothing, is found', async (t) => {
  const base = t.testdir()
  const folder = join(base, 'journal')
  await sealed(folder)
  const [first, second, third] = volumes(folder)
  const copy = join(base, 'copy')
  cpSync(folder, copy, { recursive: true })
  for (const { contents } of [first!, second!, third!]) rmSync(pathOf(copy, 'segment', contents.ordinal))
  rmSync(pathOf(copy, 'volume', second!.contents.ordinal))
  t.match(surveyJournal(copy).damage, [{ text: /batches \d+ to \d+ are missing/ }])
  cpSync(third!.path, second!.path)
  t.match(checkVolume(new Volume(second!.path)), /is volume \d+ under the name of another/)
})
