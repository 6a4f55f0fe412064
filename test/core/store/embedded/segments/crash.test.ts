// Journals whose process is killed at a write or a sync, whose power is lost, and whose disk fails: each start finds
// what was acknowledged, and all files agree.
import { spawnSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { listNumbered } from '../../../../../core/store/embedded/segments/folder.ts'
import { surveyJournal } from '../../../../../core/store/embedded/segments/journal-survey.ts'
import { checkVolume } from '../../../../../core/store/embedded/segments/sealing.ts'
import { Volume } from '../../../../../core/store/embedded/segments/volume.ts'
import { Disk, noDisk } from '../../../../chaos/disk.ts'
import type { Trouble } from '../../../../chaos/disk.ts'
import { chance } from '../../../../kit/chance.ts'

t.setTimeout(600_000)

/** One journal on a disk of its own, over several lives. */
class Lives {
  readonly folder: string
  readonly disk: Disk
  readonly #t: Test
  /** The last batch that was acknowledged, and the most that may be there: one more may have been under way. */
  acknowledged = 0
  /** What went wrong in the last life, for those who look at it. */
  failures = 0

  constructor(t: Test, seed: number, name = 'journal') {
    const base = t.testdir()
    this.#t = t
    this.folder = join(base, name)
    mkdirSync(this.folder)
    this.disk = Disk.make(t, this.folder, seed)
  }

  /** Runs a process, which may be killed. Checks what it found, and returns whether it came to its end. */
  live(steps: number, seed: number, trouble: Trouble, what: string): boolean {
    this.disk.set(trouble)
    const { stdout, stderr } = spawnSync(
      process.execPath,
      [join(import.meta.dirname, 'crash.ts'), this.folder, String(steps), String(seed)],
      { env: { ...process.env, ...this.disk.env }, encoding: 'utf8' }
    )
    const lines = stdout.split('\n').map((line) => line.split(' '))
    const found = lines.find(([word]) => word === 'found')
    if (found) this.#found(Number(found[1]), what)
    else if (!trouble.killAt && !trouble.writes && !trouble.syncs) this.#t.fail(`${what}: ${stderr}`)
    for (const [word, number] of lines) if (word === 'acknowledged') this.acknowledged = Number(number)
    this.failures = lines.filter(([word]) => word === 'failed').length
    return lines.some(([word]) => word === 'closed')
  }

  /** Checks that all is there, and that volumes and checkpoints say the same as the frames. */
  check(what: string): void {
    const { damage, fold, stretches } = surveyJournal(this.folder)
    this.#t.same(damage, [], what)
    const last = Math.max(fold.place.batch, stretches.at(-1)?.last ?? 0)
    this.#found(last, what)
    for (const { kind, path } of listNumbered(this.folder))
      if (kind === 'volume') this.#t.equal(checkVolume(new Volume(path)), undefined, `${what}: ${path}`)
  }

  #found(last: number, what: string): void {
    const { acknowledged } = this
    if (last < acknowledged || last > acknowledged + 1)
      this.#t.fail(`${what}: found batch ${last}, and ${acknowledged} was acknowledged`)
    this.acknowledged = Math.max(last, acknowledged)
  }
}

t.test('killed at any write or sync, and started again, it has what was acknowledged', { skip: noDisk }, (t) => {
  const lives = new Lives(t, 1)
  const dice = chance(21)
  let killed = 0
  for (let life = 0; life < 14; life++) {
    if (!lives.live(60, life, { killAt: 1 + dice.below(life % 3 ? 200 : 12) }, `life ${life}`)) killed++
    lives.check(`after life ${life}`)
  }
  t.ok(killed >= 6, `killed ${killed} times`)
  t.ok(lives.live(60, 99, {}, 'the last life'))
  lives.check('in the end')
  t.ok(lives.acknowledged > 100, `${lives.acknowledged} batches`)
  t.end()
})

t.test('without power at any write or sync, it has what was acknowledged', { skip: noDisk }, (t) => {
  const lives = new Lives(t, 2)
  const dice = chance(22)
  for (let life = 0; life < 14; life++) {
    lives.live(60, life, { killAt: 1 + dice.below(life % 3 ? 200 : 12) }, `life ${life}`)
    lives.disk.losePower()
    lives.check(`after life ${life}`)
  }
  t.ok(lives.live(60, 99, {}, 'the last life'))
  t.ok(lives.acknowledged > 100, `${lives.acknowledged} batches`)
  t.end()
})

for (const [name, trouble] of [
  ['writes that fail', { writes: 'EIO', oneIn: 6 }],
  ['syncs that fail', { syncs: 'EIO', oneIn: 6 }],
  ['a disk that is full now and then', { writes: 'ENOSPC', oneIn: 4 }]
] as const)
  t.test(`${name} lose nothing that was acknowledged, also when power is lost later`, { skip: noDisk }, (t) => {
    const lives = new Lives(t, 3)
    let failures = 0
    for (let life = 0; life < 4; life++) {
      lives.live(80, life, trouble, `life ${life}`)
      failures += lives.failures
      lives.disk.losePower()
      lives.check(`after life ${life}`)
    }
    t.ok(lives.live(60, 99, {}, 'the last life'))
    lives.check('in the end')
    t.ok(failures > 0, `${failures} failures`)
    t.ok(lives.acknowledged > 60, `${lives.acknowledged} batches`)
    t.end()
  })

t.test('a first frame whose sync failed was never acknowledged, whatever of it is on disk', { skip: noDisk }, (t) => {
  // With these, power takes the page of a head away and leaves its frame.
  for (const seed of [48, 50, 98]) {
    const lives = new Lives(t, seed, `journal-${seed}`)
    lives.live(4, 1, { syncs: 'EIO', oneIn: 2 }, 'a short life')
    lives.disk.losePower()
    lives.check(`seed ${seed}`)
    t.ok(lives.live(4, 1, {}, 'the next life'))
  }
  t.end()
})
