// Slices by random schedules against an oracle: never more than a budget, and nothing is refused that could be paid.
import t from 'tap'
import { grantOf, Slices } from '../../../../../../core/store/cluster/money/slices/slices.ts'
import type { Share, Taken } from '../../../../../../core/store/cluster/money/slices/slices.ts'
import { chance } from '../../../../../kit/chance.ts'
import { ModelNode, SliceBook } from '../../../../../kit/slice-book.ts'
import type { ModelAnswer, ModelRequest, Verdict } from '../../../../../kit/slice-book.ts'

const schedules = Number(process.env['SCHEDULES'] ?? 10_000)
const seed = Number(process.env['SEED'] ?? Math.floor(Math.random() * 2 ** 31))
const lease = 3000
const hour = 3_600_000

/** What is told of all schedules. */
interface Counts {
  memory: number
  decided: number
  refused: number
  waited: number
  granted: number
  fenced: number
  /** Of those that were refused: how many because of what was admitted in memory and not written. */
  spoken: number
}

/** What somebody who counts by hand knows of a request. */
interface Known {
  readonly node: Place
  readonly request: ModelRequest
  readonly inMemory: boolean
  /** Undefined while the database has not decided; lost when its node was fenced before. */
  state: 'waits' | 'open' | 'over' | 'lost'
}

interface Place {
  readonly node: ModelNode
  readonly limits: Map<string, bigint>
  answer: ModelAnswer | 'fenced' | undefined
  recalls: string[]
  stopped: boolean
}

/** One schedule: some nodes, and whatever happens to them. */
class Schedule {
  readonly #chance
  readonly #counts: Counts
  readonly #book = new SliceBook(lease)
  readonly #places: Place[]
  readonly #requests: Known[] = []
  readonly #known = new Map<ModelRequest, Known>()
  /** By budget and hour: what was charged and is held, counted apart from the book. */
  readonly #sums = new Map<string, Map<number, bigint>>()
  /** What charges were beyond their holds, and the highest limit that any node knew. */
  readonly #excess = new Map<string, bigint>()
  readonly #highest = new Map<string, bigint>()
  #now = 10 * hour

  constructor(number: number, counts: Counts) {
    this.#chance = chance(number)
    this.#counts = counts
    const { below, pick } = this.#chance
    const sizing = {
      span: pick([50, 200]),
      ahead: 1 + below(6),
      few: 1 + below(6),
      least: 1 + below(4),
      rest: pick([0, 50]),
      idle: 600
    }
    this.#places = Array.from({ length: 2 + below(3) }, (_, i) => ({
      node: new ModelNode(`node ${i}`, lease, sizing),
      limits: new Map(),
      answer: undefined,
      recalls: [],
      stopped: false
    }))
    this.#book.notify = (keys) => {
      // A notification may be missed, and comes later than the answer.
      for (const place of this.#places) if (below(4) > 0) place.recalls.push(...keys)
    }
    for (const key of ['tenant 2026-11', 'project 1d', 'key a total', 'key b total'])
      this.#limit(key, BigInt(pick([100, 600, 5000, 50_000])))
    for (const { node } of this.#places) node.enter(this.#book.join(node.name, this.#now), this.#now)
  }

  run(): void {
    const { below } = this.#chance
    for (let steps = 40 + below(60); steps > 0; steps--) this.#step()
    this.#close()
  }

  /** All nodes know another limit, at once or one after another. */
  #limit(key: string, limit: bigint, most = Infinity): void {
    for (const { limits } of this.#places.slice(0, most)) limits.set(key, limit)
    if (limit > (this.#highest.get(key) ?? 0n)) this.#highest.set(key, limit)
  }

  #step(): void {
    const { below, pick } = this.#chance
    const place = pick(this.#places)
    const what = below(100)
    this.#now += below(30)
    if (what < 28) for (let i = 1 + below(6); i > 0; i--) this.#ask(place, BigInt(below(10)))
    else if (what < 52) this.#send(place, pick([1, 2, 256]))
    else if (what < 75) this.#receive(place)
    else if (what < 82) this.#end(place)
    else if (what < 86) this.#hear(place)
    else if (what < 90) place.node.slices.look(this.#now)
    else if (what < 92) place.stopped = !place.stopped
    else if (what < 94) this.#now += pick([700, lease, hour])
    else if (what < 96) this.#book.takeOver(this.#now)
    else if (what < 98) this.#restart(place)
    else this.#limit(pick([...this.#highest.keys()]), BigInt(below(3000)), 1 + below(this.#places.length))
  }

  #sharesAt(place: Place, key: 'key a total' | 'key b total'): Share[] {
    const at = Math.floor(this.#now / hour)
    const late = this.#chance.below(10) === 0 ? 1 : 0
    return (['tenant 2026-11', 'project 1d', key] as const).map((name) => ({
      key: name,
      limit: place.limits.get(name)!,
      hour: name.endsWith('d') ? at - late : 0
    }))
  }

  #ask(place: Place, amount: bigint, again?: Known): void {
    if (place.stopped) return
    const shares = again?.request.shares ?? this.#sharesAt(place, this.#chance.pick(['key a total', 'key b total']))
    const request: ModelRequest = { shares, amount, taken: [] }
    const inMemory = place.node.ask(request, this.#now)
    if (inMemory) this.#counts.memory++
    const known: Known = { node: place, request, inMemory, state: 'waits' }
    this.#requests.push(known)
    this.#known.set(request, known)
  }

  #send(place: Place, most?: number): void {
    if (place.stopped) return
    const batch = place.node.build(this.#now, most) ?? (place.answer ? undefined : place.node.flight)
    if (!batch) return
    const answer = this.#book.batch(place.node.name, batch, this.#now)
    // One that is sent again was done already, or is done now: its requests are counted once.
    if (!answer) place.answer = 'fenced'
    else {
      if (place.answer !== answer) this.#count(place, batch.requests, answer)
      // An answer may be lost: then the same batch is sent again.
      place.answer = this.#chance.below(5) === 0 ? undefined : answer
    }
    this.#check()
  }

  /** Counts by hand what a batch has done. */
  #count(place: Place, requests: readonly ModelRequest[], { verdicts }: ModelAnswer): void {
    const { flight } = place.node
    for (const { request, charged } of flight!.ends) {
      const known = this.#known.get(request)!
      if (known.state !== 'open') continue
      known.state = 'over'
      for (const { key, hour: at } of request.shares) {
        this.#add(key, at, charged - request.amount)
        if (charged > request.amount) this.#excess.set(key, (this.#excess.get(key) ?? 0n) + charged - request.amount)
      }
    }
    for (const [i, request] of requests.entries()) {
      const known = this.#known.get(request)!
      if (known.state !== 'waits') continue
      const verdict = verdicts[i]!
      if (verdict === 'admitted') {
        known.state = 'open'
        for (const { key, hour: at } of request.shares) this.#add(key, at, request.amount)
      } else {
        if (known.inMemory) throw new Error(`what was admitted is ${verdict}`)
        known.state = 'over'
        if (verdict === 'refused') this.#refused(request)
        else this.#counts.waited++
      }
      if (!known.inMemory) this.#counts.decided++
    }
  }

  #refused({ shares, amount }: ModelRequest): void {
    this.#counts.refused++
    if (shares.every(({ key, limit, hour: at }) => this.#sum(key, at) + this.#unwritten(key, at) + amount <= limit))
      throw new Error('a request was refused that could be paid')
    if (shares.every(({ key, limit, hour: at }) => this.#sum(key, at) + amount <= limit)) this.#counts.spoken++
  }

  /** What nodes that are not fenced have admitted in memory of a budget until an hour, and not written. */
  #unwritten(key: string, at: number): bigint {
    let sum = 0n
    for (const { node: place, request, inMemory, state } of this.#requests)
      if (inMemory && state === 'waits' && place.node.epoch === this.#book.members.get(place.node.name)!.epoch)
        for (const share of request.shares)
          if (share.key === key && (!key.endsWith('d') || (share.hour <= at && share.hour > at - 24)))
            sum += request.amount
    return sum
  }

  #add(key: string, at: number, amount: bigint): void {
    let sums = this.#sums.get(key)
    if (!sums) this.#sums.set(key, (sums = new Map()))
    sums.set(at, (sums.get(at) ?? 0n) + amount)
  }

  #sum(key: string, at: number): bigint {
    let sum = 0n
    for (const [of, amount] of this.#sums.get(key) ?? [])
      if (!key.endsWith('d') || (of <= at && of > at - 24)) sum += amount
    return sum
  }

  #receive(place: Place): void {
    const { answer, node } = place
    if (!answer || place.stopped) return
    place.answer = undefined
    if (answer === 'fenced') this.#rejoin(place)
    else {
      for (const grant of answer.grants) if (grant > 0n) this.#counts.granted++
      node.answered(answer)
    }
  }

  /** What was admitted in memory and is not in the book was seen by nobody. */
  #rejoin(place: Place): void {
    const { node } = place
    this.#counts.fenced++
    for (const known of this.#requests)
      if (known.node === place && known.state === 'waits') known.state = known.inMemory ? 'lost' : 'over'
    node.requests = []
    node.enter(this.#book.join(node.name, this.#now), this.#now)
  }

  /** The process is killed, and another one starts as the same node. */
  #restart(place: Place): void {
    place.answer = undefined
    place.stopped = false
    place.node.ends = []
    this.#rejoin(place)
  }

  #end(place: Place): void {
    if (place.stopped) return
    const { below, pick } = this.#chance
    const open = this.#requests.filter(
      ({ node, state, request }) =>
        node === place &&
        state === 'open' &&
        !place.node.ends.some((end) => end.request === request) &&
        !place.node.flight?.ends.some((end) => end.request === request) &&
        !place.node.flight?.requests.includes(request)
    )
    if (open.length === 0) return
    const { request } = pick(open)
    place.node.ends.push({ request, charged: BigInt(below(Number(request.amount) + (below(10) === 0 ? 10 : 1))) })
  }

  #hear(place: Place): void {
    if (place.stopped) return
    for (const key of place.recalls.splice(0)) place.node.slices.recall(key)
  }

  /** Never more than a budget, and the book is what was counted by hand. */
  #check(): void {
    for (const [key, { hours, sliced }] of this.#book.cells) {
      let slices = 0n
      for (const member of this.#book.members.values()) slices += member.slices.get(key) ?? 0n
      if (slices !== sliced) throw new Error(`${key} has ${sliced} in slices, which are ${slices}`)
      const last = Math.max(0, ...hours.keys())
      for (const at of key.endsWith('d') ? [last] : [0]) {
        const [used, counted] = [this.#book.used(key, at), this.#sum(key, at)]
        if (used !== counted) throw new Error(`${key} has ${used} used, and ${counted} were counted`)
      }
      // A request of an hour that is over counts in later sums, which did not decide on it.
      const most = this.#highest.get(key)! + (this.#excess.get(key) ?? 0n)
      if (!key.endsWith('d') && this.#sum(key, 0) + sliced > most)
        throw new Error(`${key} has ${this.#sum(key, 0)} admitted and ${sliced} in slices, of ${most}`)
      if (!key.endsWith('d') && this.#sum(key, 0) > most)
        throw new Error(`${key} has admitted ${this.#sum(key, 0)} of ${most}`)
    }
  }

  /** Whatever has happened, a request is decided as by hand as soon as those that live have heard of it. */
  #close(): void {
    const { pick } = this.#chance
    for (const key of this.#highest.keys()) this.#limit(key, this.#places[0]!.limits.get(key)!)
    for (let tries = 0; tries < 3; tries++) {
      const place = pick(this.#places)
      place.stopped = false
      const amount = BigInt(1 + this.#chance.below(12))
      let verdict: Verdict | undefined
      for (let round = 0; verdict === undefined || verdict === 'undecided' || verdict === 'stuck'; round++) {
        if (round > 12) throw new Error(`a request is ${verdict} after ${round} rounds`)
        verdict = this.#settled(place, amount)
        // Who is stopped is taken for gone in the end.
        if (round > 4) {
          this.#now += lease
          for (const one of this.#places) if (!one.stopped) this.#pump(one)
          this.#now += 1
          this.#book.takeOver(this.#now)
        }
      }
    }
    for (const place of this.#places) {
      if (!place.stopped) place.node.slices.recallAll()
      this.#pump(place)
      if (!place.stopped) place.node.slices.recallAll()
      this.#pump(place)
    }
    this.#now += lease + 1
    this.#book.takeOver(this.#now)
    for (const [key, { sliced }] of this.#book.cells)
      if (sliced !== 0n) throw new Error(`${key} has ${sliced} in slices, and nobody has them`)
  }

  /** Asks, and has all who live do what they have to. */
  #settled(place: Place, amount: bigint): Verdict | undefined {
    this.#now += 20
    this.#ask(place, amount)
    const known = this.#requests.at(-1)!
    const before = { ...this.#counts }
    for (const one of [place, ...this.#places, ...this.#places]) this.#pump(one)
    if (known.state === 'lost') return undefined
    if (known.state === 'open') return 'admitted'
    return this.#counts.refused > before.refused ? 'refused' : 'undecided'
  }

  /** A node that lives sends, hears and answers, until nothing is left to do. */
  #pump(place: Place): void {
    if (place.stopped) return
    for (let i = 0; i < 6; i++) {
      this.#hear(place)
      this.#send(place)
      this.#receive(place)
    }
  }
}

t.test(`${schedules} random schedules (SEED=${seed})`, { timeout: 300_000 }, async (t) => {
  const counts: Counts = { memory: 0, decided: 0, refused: 0, waited: 0, granted: 0, fenced: 0, spoken: 0 }
  for (let i = 0; i < schedules; i++)
    try {
      new Schedule(seed + i, counts).run()
    } catch (error) {
      throw new Error(`SEED=${seed + i} SCHEDULES=1: ${(error as Error).message}`, { cause: error })
    }
  t.comment(JSON.stringify(counts))
  const { spoken, ...others } = counts
  for (const [name, count] of Object.entries(others)) t.ok(count > schedules / 20, `${count} ${name}`)
  t.ok(spoken > schedules / 500, `${spoken} spoken`)
})

t.test('slices shrink towards the end of a budget, and end above what must be decided exactly', async (t) => {
  let free = 1_000_000n
  let given = 0n
  const change = { want: 50_000n, least: 4000n }
  for (let grant; (grant = grantOf(free, change, 10)) > 0n; given++) {
    if (grant > free / 20n || grant < 2000n) t.fail(`${grant} of ${free}`)
    free -= grant
  }
  t.ok(free < 40_000n)
  t.ok(given > 10n)
})

t.test('what is put back long after it was taken is given back, unless its epoch is over', async (t) => {
  const share = { key: 'tenant:acme total', limit: 100n, hour: 0 }
  for (const over of [false, true]) {
    const slices = new Slices({ span: 200, ahead: 4, few: 4, least: 4, rest: 0, idle: 600 })
    slices.take([share], 10n, 0)
    const [change] = slices.changes(10, 0)
    t.equal(change, undefined, 'one request alone is no load')
    slices.take([share], 10n, 100)
    slices.changes(10, 100)[0]!.slice.answered(10n)
    const taken = slices.take([share], 10n, 200)
    t.ok(taken[0])
    // The database is silent for longer than an unused slice is kept.
    slices.changes(10, 1000)
    slices.look(1000)
    t.equal(slices.size, 0)
    if (over) slices.drop()
    slices.putBack(taken, 10n)
    t.equal(slices.recall(share.key), !over)
    t.same(
      slices.changes(10, 1001).map(({ back }) => back),
      over ? [] : [10n]
    )
  }
})

t.test('what waits takes what it lacks from slices that carry all of it, or nothing', async (t) => {
  const slices = new Slices({ span: 200, ahead: 4, few: 4, least: 4, rest: 0, idle: 600 })
  const shares = ['tenant:acme total', 'key:laptop total'].map((key) => ({ key, limit: 100n, hour: 0 }))
  for (const now of [0, 1]) slices.take(shares, 10n, now)
  const taken = slices.take(shares, 10n, 2)
  const [tenant, key] = slices.changes(10, 2)
  tenant!.slice.answered(15n)
  t.equal(slices.takeAgain(shares, 10n, taken), undefined, 'the key has none')
  t.equal(tenant!.slice.room, 15n)
  key!.slice.answered(10n)
  const all = slices.takeAgain(shares, 10n, taken)
  t.same(all, [tenant!.slice, key!.slice])
  t.same([tenant!.slice.room, key!.slice.room], [5n, 0n])
  const told = (): unknown => slices.changes(10, 3).map(({ unwritten }) => unwritten)
  slices.ahead(all!, 10n)
  slices.ahead(all!, -3n)
  t.same(told(), [7n, 7n], 'the database is told what is not written')
  for (const { slice } of [tenant!, key!]) slice.answered(0n)
  t.same(told(), [], 'once')
  key!.slice.refused()
  t.same(told(), [7n], 'and again where it did not hear that')
  key!.slice.answered(0n)
  slices.ahead(all!, -7n)
  t.same(told(), [0n, 0n])
})

t.test(
  'the database is told until which hour it is that is not written, also where it is as much as before',
  async (t) => {
    const slices = new Slices({ span: 200, ahead: 4, few: 4, least: 4, rest: 0, idle: 600 })
    const shareOf = (hour: number): Share[] => [{ key: 'tenant:acme 30d', limit: 1000n, hour }]
    const take = (hour: number, now: number): Taken => slices.take(shareOf(hour), 10n, now)
    for (const now of [0, 1]) take(7, now)
    slices.changes(10, 2)[0]!.slice.answered(100n)
    const told = (now: number): unknown =>
      slices.changes(10, now).flatMap(({ slice, unwritten, hour }) => {
        slice.answered(0n)
        return unwritten === undefined ? [] : [[unwritten, hour]]
      })
    const first = take(7, 3)
    slices.ahead(first, 10n)
    t.same(told(4), [[10n, 7]])
    slices.ahead(first, -10n)
    slices.ahead(take(8, 5), 10n)
    t.same(told(6), [[10n, 8]], 'what was of the hour before is written, and this is of the next')
    t.same(told(7), [])
  }
)

t.test('what waits and has nothing any more, as its epoch is over, takes all of it', async (t) => {
  const slices = new Slices({ span: 200, ahead: 4, few: 4, least: 4, rest: 0, idle: 600 })
  const shares = ['tenant:acme total', 'key:laptop total'].map((key) => ({ key, limit: 100n, hour: 0 }))
  for (const now of [0, 1]) slices.take(shares, 10n, now)
  const told = slices.changes(10, 2).map(({ slice }) => slice)
  for (const slice of told) slice.answered(15n)
  const taken = slices.takeAgain(shares, 10n, [])
  t.same(taken, told)
  slices.putBack(taken!, 10n)
  t.same(
    told.map(({ room }) => room),
    [15n, 15n],
    'and can give it back'
  )
})

t.test('those that wait for longest are told about first, however many there are', async (t) => {
  const slices = new Slices()
  const share = (i: number): { key: string; limit: bigint; hour: number } => ({
    key: `key:${i} total`,
    limit: 100n,
    hour: 0
  })
  for (const now of [0, 1]) for (let i = 0; i < 9; i++) slices.take([share(i)], 1n, now)
  const told: string[] = []
  for (let batch = 0; batch < 3; batch++) {
    // A busy one wants more with each batch.
    slices.take([share(9)], 1n, 2 + batch)
    for (const { slice } of slices.changes(4, 2 + batch)) {
      told.push(slice.key)
      slice.answered(0n)
    }
  }
  t.same(
    told.slice(0, 9),
    Array.from({ length: 9 }, (_, i) => share(i).key)
  )
})
