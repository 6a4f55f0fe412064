// The crew of a gateway over real threads: how workers start, change, end and are replaced.
import t from 'tap'
import type { Test } from 'tap'
import { Arena } from '../../../core/store/shared/arena/arena.ts'
import { Seats } from '../../../core/store/shared/arena/seats.ts'
import { Metrics } from '../../../core/telling/metrics.ts'
import { Reserve } from '../../../core/workers/reserve.ts'
import { Crew } from '../../../core/workers/crew.ts'
import { Figures } from '../../../core/workers/figures.ts'
import { Pauses } from '../../../core/workers/pauses.ts'
import type { Member } from '../../../core/workers/member.ts'
import type { LogLine } from '../../kit/gateway.ts'
import { recordingLog } from '../../kit/gateway.ts'
import { eventually } from '../../kit/probe.ts'
import type { Change, Order } from './thread.ts'

t.setTimeout(600_000)

/** Lines to workers keep no loop running; a gateway has listeners that do. */
const running = setInterval(() => {}, 1000)
t.teardown(() => clearInterval(running))

interface Company {
  readonly crew: Crew
  readonly figures: Figures
  readonly lines: LogLine[]
  /** The workers that have ended, and were brought home. */
  readonly home: Member[]
  /** The places that were empty at each change. */
  readonly changes: (readonly number[])[]
  /** What workers are started with. */
  given: Partial<Order>
  /** How many times in a row there is no seat from now on. */
  full: number
  start(): Promise<unknown>
  /** What the workers have at present, by their numbers. */
  values(): Promise<Record<number, number>>
}

/** How long a worker may say nothing, in milliseconds. It beats twenty times a second. */
const silence = 2000

function company(t: Test, size: number, given: Partial<Order> = {}): Company {
  const lines: LogLine[] = []
  const home: Member[] = []
  const changes: Company['changes'] = []
  const arena = Arena.create({ seats: size + 1, sets: 2, cells: 2 })
  const seats = new Seats(arena)
  const made: Company['given'] = { value: 1, ...given }
  const crew = new Crew(size, {
    threads: new Reserve(new URL('thread.ts', import.meta.url), process.env),
    recruit(number) {
      if (found.full-- > 0) throw new Error('there is no seat')
      const seat = seats.give()
      const order = { ...found.given, arena: arena.buffer, seat }
      return {
        number,
        seat,
        order,
        served: (member) => ({ report: (snapshot: never) => figures.report(member, snapshot) })
      }
    },
    async bringHome(member) {
      figures.ended(member)
      await seats.leave(member.seat!, () => [])
      home.push(member)
    },
    hanging: () => seats.hanging(performance.now(), silence),
    onChange: () => changes.push(crew.away),
    log: recordingLog(lines),
    pause: 10
  })
  const figures = new Figures((ms) => crew.ask(ms, 'metrics'))
  t.teardown(() => crew.close(0))
  const found: Company = {
    crew,
    figures,
    lines,
    home,
    changes,
    given: made,
    full: 0,
    start: async () => {
      let first: unknown
      await crew.start((said) => (first = said))
      return first
    },
    async values() {
      const { answers } = await crew.ask<number>(60_000, 'value')
      return Object.fromEntries([...answers].map(([{ number }, value]) => [number, value]))
    }
  }
  return found
}

/** Does something with one worker alone. */
function tellOne({ crew }: Company, number: number, name: string, ...args: unknown[]): void {
  crew.member(number)!.line.tell(name, ...args)
}

t.test('all start, answer, tell their log, and leave by their own means', async (t) => {
  const { crew, start, values, lines, home } = company(t, 3)
  t.same(await start(), { number: 1, value: 1 }, 'what the first one says is known before the others start')
  t.same(await values(), { 1: 1, 2: 1, 3: 1 })
  t.same(crew.away, [])
  crew.tell('tell', 'something happened')
  await eventually(() => lines.length >= 6)
  t.match(lines, [
    {
      level: 'warn',
      message: 'something happened',
      fields: { worker: Number, part: 'test', when: 7, what: { deep: 1n } }
    }
  ])
  t.match(
    lines
      .filter(({ message }) => message === 'cannot be sent')
      .map(({ fields }) => fields['worker'])
      .sort(),
    [1, 2, 3]
  )
  t.same((await crew.close<string>(60_000, 'goodbye')).toSorted(), ['goodbye 1', 'goodbye 2', 'goodbye 3'])
  t.equal(home.length, 3)
  t.same(crew.away, [1, 2, 3])
})

t.test('a crew of which one cannot start does not start, and says which one and why', async (t) => {
  const { crew, start, lines, home } = company(t, 2, { failing: { 2: 'it has no room' } })
  await t.rejects(start(), { message: 'worker 2 could not start: it has no room' })
  await crew.close(0)
  t.equal(home.length, 2)
  t.same(lines, [], 'nobody takes a place in a gateway that does not start')
})

t.test('one that ends is brought home and replaced, while the others serve on', async (t) => {
  const all = company(t, 2)
  const { crew, start, values, lines, home } = all
  await start()
  all.given = { value: 5 }
  for (const [name, ...args] of [['exit', 7], ['fault']] as const) {
    const before = home.length
    tellOne(all, 2, name, ...args)
    await eventually(() => home.length > before)
    t.equal((await values())[1], 1, 'the other one answers')
    await eventually(() => crew.away.length === 0)
    t.same(await values(), { 1: 1, 2: 5 }, 'the new one has what there is now')
  }
  const ends = lines.filter(({ level }) => level === 'error')
  t.match(ends, [
    { message: 'a worker has ended: another one takes its place', fields: { worker: 2, reason: /exit code 7/ } },
    { fields: { worker: 2, reason: /a fault that nothing caught/ } }
  ])
})

t.test('one that is renewed takes no more from when it is asked to leave until another one serves', async (t) => {
  const { crew, start, values, lines, home, changes } = company(t, 2)
  await start()
  const first = crew.member(1)!
  const before = changes.length
  const renewed = crew.renew(first, 60_000, 'goodbye')
  t.same(changes.slice(before), [[1]], 'its neighbours hear of it before it ends')
  t.same(
    crew.serving.map(({ number }) => number),
    [2]
  )
  t.same(await values(), { 1: 1, 2: 1 }, 'it still answers')
  await renewed
  t.same(crew.away, [], 'another one serves when that is done')
  t.same(home, [first])
  t.not(crew.member(1), first)
  t.notOk(lines.some(({ level }) => level === 'error'))
  const second = crew.renew(crew.member(2)!, 60_000, 'goodbye')
  await crew.close(60_000, 'goodbye')
  await second
})

t.test('a place for which there was no seat is tried again, and that is told', async (t) => {
  const all = company(t, 2)
  const { crew, start, values, lines } = all
  await start()
  all.full = 2
  tellOne(all, 2, 'exit', 7)
  await eventually(() => crew.away.length === 1)
  await eventually(() => crew.away.length === 0)
  t.same(await values(), { 1: 1, 2: 1 })
  const told = lines.filter(({ message }) => /no worker could be started/.test(message))
  t.match(told, [{ fields: { worker: 2, error: /there is no seat/ } }, { fields: { worker: 2 } }])
})

t.test('one that hangs is ended and replaced, and what it was asked is not waited for', async (t) => {
  const all = company(t, 2)
  const { crew, start, values, lines } = all
  await start()
  tellOne(all, 1, 'hang')
  const { answers, missing } = await crew.ask(100, 'value')
  t.same(
    [...answers.keys()].map(({ number }) => number).filter((number) => number === 1),
    []
  )
  t.ok(missing.includes(1))
  await eventually(() => lines.some(({ message }) => message === 'a worker serves in the place of one that had ended'))
  t.match(lines, [{ message: 'a worker hangs: it is ended', fields: { worker: 1 } }])
  await eventually(() => crew.away.length === 0)
  t.same(await values(), { 1: 1, 2: 1 })
})

t.test('one that needs long until it serves does not hang', async (t) => {
  const { start, values, lines } = company(t, 1, { delay: 2.5 * silence })
  await start()
  t.same(await values(), { 1: 1 })
  t.same(lines, [])
})

t.test('a change reaches all or none', async (t) => {
  const all = company(t, 3)
  const { crew, start, values, lines } = all
  await start()
  const change = (next: Change): Promise<void> => crew.change(next, () => void (all.given = { value: next.value }))
  await change({ value: 2 })
  t.same(await values(), { 1: 2, 2: 2, 3: 2 })

  await t.rejects(change({ value: 3, at: { 2: 'refuse' } }), { message: /worker 2 has no room for 3/ })
  t.same(await values(), { 1: 2, 2: 2, 3: 2 })
  const { answers } = await crew.ask<number>(60_000, 'dropped')
  t.same([...answers.values()].toSorted(), [0, 1, 1], 'who had prepared it has dropped it')

  await t.rejects(
    crew.change({ value: 4 }, () => {
      throw new Error('the supervisor could not')
    }),
    { message: 'the supervisor could not' }
  )
  t.same(await values(), { 1: 2, 2: 2, 3: 2 })

  await change({ value: 5, at: { 3: 'end' } })
  await eventually(() => crew.away.length === 0)
  t.same(await values(), { 1: 5, 2: 5, 3: 5 }, 'one that ends refuses nothing, and begins with what there is then')

  await change({ value: 6, at: { 1: 'stumble' } })
  await eventually(() => crew.away.length === 0)
  t.same(await values(), { 1: 6, 2: 6, 3: 6 }, 'one that cannot do what it said begins anew')
  t.match(lines.filter(({ level }) => level === 'error').at(-1), {
    fields: { worker: 1, reason: 'it did not take over a change of the configuration' }
  })

  tellOne(all, 2, 'exit', 1)
  await Promise.all([change({ value: 7 }), change({ value: 8 })])
  await eventually(() => crew.away.length === 0)
  t.same(await values(), { 1: 8, 2: 8, 3: 8 })
})

t.test('what one has counted that has ended stays in the sums, and how it was does not', async (t) => {
  const all = company(t, 2)
  const { crew, start, figures, home } = all
  await start()
  const metrics = new Metrics()
  metrics.join(() => figures.all())
  const sums = async (): Promise<Record<string, number>> => {
    const wanted = (await metrics.snapshot()).filter(({ name }) => /^sluice_(served_total|running)$/.test(name))
    return Object.fromEntries(wanted.map(({ name, values }) => [name, values[0]!.value]))
  }
  crew.tell('serve', 3)
  await eventually(async () => (await sums())['sluice_served_total'] === 6)
  t.same(await sums(), { sluice_served_total: 6, sluice_running: 6 })
  for (const round of [1, 2]) {
    tellOne(all, 1, 'exit', 1)
    await eventually(() => home.length === round)
    t.equal((await sums())['sluice_served_total'], 5 + round)
    await eventually(() => crew.away.length === 0)
    t.same(await sums(), { sluice_served_total: 5 + round, sluice_running: 3 })
    tellOne(all, 1, 'serve', 1)
    await eventually(async () => (await sums())['sluice_served_total'] === 6 + round)
    t.same(await sums(), { sluice_served_total: 6 + round, sluice_running: 4 })
  }
})

t.test('a place stays empty for longer each time, as long as nobody serves there for a minute', async (t) => {
  let now = 0
  const pauses = new Pauses(100, () => now)
  t.equal(pauses.next(1), 100)
  t.equal(pauses.next(1), 200, 'one that could not even start counts')
  pauses.began(1)
  now += 59_999
  t.equal(pauses.next(1), 400)
  t.equal(pauses.next(2), 100, 'each place for itself')
  pauses.began(1)
  now += 60_000
  t.equal(pauses.next(1), 100)
  for (let i = 0; i < 20; i++) pauses.next(1)
  t.equal(pauses.next(1), 30_000)
})
