// A gateway under load on a disk that fails, lies, is full or is slow, and then loses power: what was acknowledged is
// in the books, once.
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import { Disk, noDisk } from '../chaos/disk.ts'
import type { Trouble } from '../chaos/disk.ts'
import { formsFor, storeOf } from '../core/store/embedded/forms.ts'
import type { Form } from '../core/store/embedded/forms.ts'
import { eventually, figures } from '../kit/probe.ts'
import { checkBooks, quiet } from './audit.ts'
import { PlannedUpstream } from './planned.ts'
import type { Plan } from './planned.ts'
import { launch, withWorkers } from './process.ts'
import type { Launch, Running } from './process.ts'
import { ask, chance, configOf, endings, folder, key, long, prices, secretOf } from './rig.ts'
import type { Asking, Entry, More, Seen } from './rig.ts'

t.setTimeout(long ? 1_800_000 : 600_000)

const seed = Number(process.env['SLUICE_SEED'] ?? 20261121)
const random = chance(seed)
const models = Object.keys(prices)

/** What runs on a disk: so many threads over a store of a form. */
interface Setup {
  readonly workers: number
  readonly form: Form
}

/** One thread and two workers, in both forms in a long run. In a quick one each of the two has one form. */
const setups = (turn: number): readonly Setup[] =>
  [1, 2].flatMap((workers) => formsFor(turn + workers).map((form) => ({ workers, form })))
const nameOf = ({ workers, form }: Setup): string =>
  `${workers > 1 ? `${workers} workers` : 'one thread'} over a ${form.name}`

let sent = 0
function request(): [Plan, Asking] {
  const plan: Plan = {
    id: `d${sent++}`,
    units: { input: random(3000), output: random(2000) },
    words: 2 + random(40),
    gap: random(3)
  }
  return [
    plan,
    { model: models[random(models.length)]!, stream: random(3) > 0, key: ['one', 'two', 'three'][random(3)]! }
  ]
}

/** A store on a disk of its own, and the gateways that run on it, one at a time. */
class Ordeal {
  readonly disk: Disk
  /** Everything that clients saw. */
  readonly seen: Seen[] = []
  readonly #t: Test
  readonly #home: string
  readonly #file: string
  readonly #config: More
  readonly #launch: Launch
  #running: Running | undefined
  #load: Promise<unknown> = Promise.resolve()
  #over = true

  private constructor(t: Test, home: string, upstream: PlannedUpstream, { workers, form }: Setup) {
    this.#t = t
    this.#launch = workers > 1 ? withWorkers(workers) : {}
    this.#home = home
    this.#file = join(home, 'sluice.db')
    this.disk = Disk.make(t, this.#file, seed)
    this.#config = configOf([upstream], {
      store: { ...storeOf(this.#file, form), durability: 'power' },
      keys: ['one', 'two', 'three'].map((name) => key(name, { budget: { usd: 1_000_000, per: 'day' } }))
    })
  }

  static async prepare(t: Test, setup: Setup): Promise<Ordeal> {
    const home = folder(t)
    const ordeal = new Ordeal(t, home, await PlannedUpstream.start(t), setup)
    t.teardown(() => ordeal.calm())
    return ordeal
  }

  get running(): Running {
    return this.#running!
  }

  /** Starts a gateway on the disk and keeps so many clients busy with it. */
  async start(clients = 12): Promise<void> {
    this.#running = await launch(this.#t, this.#home, this.#config, { ...this.#launch, env: this.disk.env })
    this.#over = false
    const lane = async (): Promise<void> => {
      while (!this.#over) if ((await this.ask()).status !== 200) await sleep(5)
    }
    this.#load = Promise.all(Array.from({ length: clients }, lane))
  }

  /** One request more. */
  async ask(): Promise<Seen> {
    const one = await ask(this.running.url, ...request())
    this.seen.push(one)
    return one
  }

  /** Waits for that many more whole answers. */
  async answers(count: number): Promise<void> {
    const target = this.seen.length + count
    await eventually(() => this.seen.slice(target - count).filter(({ ended }) => ended).length >= count, 30_000)
  }

  async ready(): Promise<boolean> {
    return (await fetch(`${this.running.adminUrl}/readyz`)).status === 200
  }

  /** Tries to start one on the disk as it is; what it said before it ended. */
  async refusal(): Promise<string> {
    return launch(this.#t, this.#home, this.#config, { ...this.#launch, env: this.disk.env }).then(
      () => 'it started',
      String
    )
  }

  /** No client sends another request. */
  async calm(): Promise<void> {
    this.#over = true
    await this.#load
  }

  /**
   * Kills the gateway under load, in place of that write or sync if one is given, and takes what was not synced with
   * it.
   */
  async losePower(killAt?: number): Promise<void> {
    if (killAt !== undefined) {
      this.disk.set({ killAt })
      await eventually(() => !this.running.alive, 10_000)
    }
    this.#over = true
    await this.running.end('SIGKILL')
    await this.#load
    this.disk.losePower()
    this.disk.set()
  }

  /** Ends what is open on a sound disk, then audits. */
  async audit(): Promise<Entry[]> {
    if (this.#running?.alive !== true) this.#running = await launch(this.#t, this.#home, this.#config, this.#launch)
    await quiet(this.#t, this.running)
    await this.running.end('SIGTERM')
    return checkBooks(this.#t, this.#file, this.seen)
  }
}

const broken: Readonly<Record<string, Trouble>> = {
  'no write succeeds': { writes: 'EIO' },
  'no sync succeeds': { syncs: 'EIO' },
  'there is no room': { writes: 'ENOSPC' },
  'neither writes nor syncs succeed': { writes: 'EIO', syncs: 'EIO' }
}

async function failing(t: Test, setup: Setup): Promise<void> {
  const ordeal = await Ordeal.prepare(t, setup)
  const { disk } = ordeal
  await ordeal.start()
  const healed: number[] = []
  for (const [what, trouble] of Object.entries(broken)) {
    await ordeal.answers(20)
    t.ok(await ordeal.ready(), `${what}: not yet`)
    disk.set(trouble)
    await eventually(async () => !(await ordeal.ready()))
    for (let more = 0; more < 3; more++)
      t.match(
        await ordeal.ask(),
        { status: 503, code: 'billing_unavailable' },
        `${what}: every billable request is refused`
      )
    const listed = await fetch(`${ordeal.running.url}/v1/models`, {
      headers: { authorization: `Bearer ${secretOf('one')}` }
    })
    t.equal(listed.status, 200, `${what}: what costs nothing is served`)
    // Longer than what waits for the disk is patient, in the long version.
    await sleep(long ? 10_000 : 400)
    t.ok(ordeal.running.alive, `${what}: it lives`)
    disk.set()
    const mendedAt = performance.now()
    await eventually(async () => (await ordeal.ask()).ended && (await ordeal.ready()))
    healed.push(Math.round(performance.now() - mendedAt))
  }
  const { failed } = disk.calls
  t.ok(failed >= Object.keys(broken).length, `${failed} calls failed`)
  await ordeal.answers(20)
  await ordeal.losePower()
  disk.set({ writes: 'EIO', syncs: 'EIO' })
  t.match(
    await ordeal.refusal(),
    /did not start: [^]*as the disk fails \(disk I\/O error\): look into/,
    'a start on such a disk says so, and changes nothing'
  )
  disk.set()
  const entries = await ordeal.audit()
  const ended = ordeal.seen.filter((one) => one.ended).length
  t.comment(
    `${ordeal.seen.length} requests, ${ended} ends seen, ${endings(entries).ends.size} in the books; it served again ${healed.join(', ')} ms after the disk did`
  )
}

for (const setup of setups(0))
  t.test(
    `while the disk fails nothing new is admitted, and when it is mended everything goes on: ${nameOf(setup)}`,
    { skip: noDisk },
    (t) => failing(t, setup)
  )

async function stopping(t: Test, setup: Setup): Promise<void> {
  const ordeal = await Ordeal.prepare(t, setup)
  await ordeal.start()
  await ordeal.answers(50)
  ordeal.disk.set({ syncs: 'EIO' })
  await eventually(async () => !(await ordeal.ready()))
  await ordeal.calm()
  const began = performance.now()
  await ordeal.running.end('SIGTERM')
  t.match(ordeal.running.output, /could not be written, \d+ operations are lost/)
  t.comment(`it ended ${Math.round(performance.now() - began)} ms after it was told`)
  ordeal.disk.losePower()
  ordeal.disk.set()
  await ordeal.audit()
}

// It takes as long as closing waits for a disk.
if (long)
  for (const form of formsFor(0))
    t.test(
      `a gateway that is stopped while the disk fails ends all the same, and the next start mends its books: ${form.name}`,
      { skip: noDisk },
      (t) => stopping(t, { workers: 1, form })
    )

async function lying(t: Test, setup: Setup): Promise<void> {
  const ordeal = await Ordeal.prepare(t, setup)
  const rounds = long ? 30 : setup.workers > 1 ? 1 : 2
  const { disk } = ordeal
  let acknowledged = 0
  for (let round = 0; round < rounds; round++) {
    await ordeal.start()
    disk.set({ writes: 'EIO', syncs: 'EIO', oneIn: 100 })
    await ordeal.answers(60)
    // The kernel says once that a page was not written, and then that there is nothing to write.
    for (let lie = 0; lie < 4; lie++) {
      const before = disk.calls.failed
      disk.set({ syncs: 'EIO', times: 1 })
      await eventually(() => disk.calls.failed > before)
      await ordeal.answers(15)
    }
    t.ok(ordeal.running.alive, 'it lives')
    await ordeal.losePower(1 + random(100))
    acknowledged = ordeal.seen.filter((one) => one.ended).length
  }
  const { failed, syncs, writes } = disk.calls
  t.ok(failed >= rounds * 4, `${failed} calls failed`)
  const entries = await ordeal.audit()
  t.comment(
    `power lost ${rounds} times; ${failed} of ${writes} writes and ${syncs} syncs failed; ${acknowledged} ends seen, ${endings(entries).ends.size} in the books`
  )
}

for (const setup of setups(1))
  t.test(
    `a disk that fails now and then, or once and then claims success, loses nothing that was acknowledged: ${nameOf(setup)}`,
    { skip: noDisk },
    (t) => lying(t, setup)
  )

async function syncingSlowly(t: Test, setup: Setup): Promise<void> {
  const ordeal = await Ordeal.prepare(t, setup)
  const clients = 24
  await ordeal.start(clients)
  const store = async (): Promise<[commits: number, operations: number]> => {
    const all = await figures(t, ordeal.running)
    return [all.get('sluice_store_commits_total')!, all.get('sluice_store_operations_total')!]
  }
  const size = ([c0, o0]: readonly number[], [c1, o1]: readonly number[]): number => (o1! - o0!) / (c1! - c0!)
  await ordeal.answers(50)
  const start = await store()
  await ordeal.answers(100)
  const quick = await store()
  ordeal.disk.set({ syncDelay: 300 })
  await ordeal.answers(long ? 400 : 60)
  const slow = await store()
  await ordeal.calm()
  t.same(ordeal.seen.filter(({ ended }) => !ended).slice(0, 3), [], 'nothing fails')
  t.ok(await ordeal.ready(), 'it is slow, not broken')
  const [before, after] = [size(start, quick), size(quick, slow)]
  t.ok(after > clients / 2, `${before.toFixed(1)} operations in a batch became ${after.toFixed(1)}`)
  await ordeal.losePower()
  await ordeal.audit()
}

for (const form of formsFor(1))
  t.test(`a disk that takes 300 ms for a sync delays answers, and batches grow: ${form.name}`, { skip: noDisk }, (t) =>
    syncingSlowly(t, { workers: 1, form })
  )
