// What the turns of a session may spend by the plugin quota.
import t from 'tap'
import type { GatewayError } from '../../core/contract/contract.ts'
import { noUsage } from '../../core/contract/contract.ts'
import { caller, charge } from '../../core/contract/slots.ts'
import type { MeteredUsage } from '../../core/contract/slots.ts'
import type { Allowance, Spent } from '../../core/catalogue/caller.ts'
import type { ReserveRequest } from '../../core/store/ledger.ts'
import { billed, holdTurn, openBill } from '../../plugins/quota/turns.ts'
import { TestLedger } from '../kit/ledger.ts'
import { priceOf, termsAt, Running, attemptOf, perToken, Turning, used } from '../kit/quota.ts'

/** What a client secret may spend, as one that is counted at once. */
class Counted implements Allowance {
  readonly limit: bigint
  posted: bigint
  readonly #holds = new Map<string, bigint>()

  constructor(limit: bigint, posted = 0n) {
    this.limit = limit
    this.posted = posted
  }

  get pending(): bigint {
    return [...this.#holds.values()].reduce((sum, amount) => sum + amount, 0n)
  }

  spent(): Spent {
    return { posted: this.posted, pending: this.pending }
  }

  hold(name: string, amount: bigint): Spent | undefined {
    if (amount > 0n && this.posted + this.pending + amount > this.limit) return this.spent()
    this.#holds.set(name, amount)
    return undefined
  }

  end(name: string, charged: bigint): void {
    if (this.#holds.delete(name)) this.posted += charged
  }
}

/** A session whose key has so much left. */
function session(ledger: TestLedger, { limit, allowance }: { limit?: bigint; allowance?: Allowance } = {}): Running {
  const running = new Running([attemptOf({ channel: 'before' }), attemptOf({})], { turns: true })
  const budgets = limit === undefined ? [] : [{ limit, per: 'total' }]
  running.set(caller, { key: 'k', scopes: [{ kind: 'key', id: 'key:k', budgets }], secret: allowance && { allowance } })
  openBill(running as never, [{ model: 'demo', term: termsAt(perToken) }], ledger, 10)
  return running
}

function begin(ledger: TestLedger, running: Running, turn: Turning, more: object = {}): GatewayError | undefined {
  const setting = { ledger, estimate: 'worst', defaultOutput: 10, abandoned: 'prompt', ...more } as const
  try {
    holdTurn(running as never, running.find(billed), turn as never, setting)
  } catch (error) {
    return error as GatewayError
  }
  return undefined
}

t.test('a session holds nothing, and is opened where one response may be paid', async (t) => {
  const ledger = new TestLedger()
  const running = session(ledger, { limit: 21n })
  t.match(ledger.rows, [{ request: { amount: 0n, requestId: 'r1', streamed: true, endpoint: 'speech' } }])
  t.equal(running.waits.length, 1)
  t.throws(() => session(new TestLedger(), { limit: 20n }), { code: 'quota_key_exceeded' })
  await running.ends[0]!()
  t.ok(ledger.rows[0]!.voided)
  t.equal(running.find(charge), undefined, 'there was no turn')
  t.doesNotThrow(() => session(new TestLedger(), { allowance: new Counted(21n) }))
  t.throws(() => session(new TestLedger(), { allowance: new Counted(21n, 1n) }), { code: 'quota_key_exceeded' })
  const broken = new TestLedger()
  const lost = session(broken)
  broken.rows[0]!.voided = true
  await t.rejects(async () => lost.ends[0]!())
})

t.test('each turn is held and settled by itself, and the session is charged their sum', async (t) => {
  const ledger = new TestLedger()
  const running = session(ledger)
  const first = new Turning('1')
  t.equal(begin(ledger, running, first), undefined)
  const row = ledger.rows[1]!
  t.match(row, { request: { part: '1', amount: 60n, estimate: { input: 20, maxOutput: 5 } }, dispatched: ['a'] })
  t.equal(first.waits.length, 1)
  first.told(4)
  t.equal(row.delivered, 4)
  await first.end(used(7, 4))
  t.match(row.settled, { amount: 15n, source: 'upstream', channel: 'a', usage: { input: 7, output: 4 } })

  const typical = new Turning('2')
  begin(ledger, running, typical, { estimate: 'typical' })
  t.equal(ledger.rows[2]!.request.amount, 30n)
  await typical.end()
  t.ok(ledger.rows[2]!.voided, 'it never began')
  const guessed = new Turning('3')
  begin(ledger, running, guessed)
  await guessed.end(used(1, 1, 'estimated'))
  const last = new Turning('4')
  begin(ledger, running, last)
  await last.end(used(1, 0))
  await running.ends[0]!()
  t.same(running.find(charge), {
    amount: 19n,
    reserved: 180n,
    priceVersion: 'v',
    usage: { ...noUsage, input: 9, output: 5 },
    source: 'estimated'
  })
})

t.test(
  'a session whose turns cost nothing but held something is charged nothing, and one of free turns is not',
  async (t) => {
    for (const free of [false, true]) {
      const ledger = new TestLedger()
      const running = session(ledger)
      if (free) Object.assign(running.find(billed), { terms: termsAt(priceOf({})) })
      const turn = new Turning('1')
      begin(ledger, running, turn)
      await turn.end(used(0, 0))
      await running.ends[0]!()
      if (free) t.equal(running.find(charge), undefined)
      else t.match(running.find(charge), { amount: 0n, reserved: 60n })
    }
  }
)

t.test(
  'a turn that its client leaves owes its prompt, unless the operator says otherwise or it was counted',
  async (t) => {
    for (const [abandoned, left, usage, amount] of [
      ['prompt', true, undefined, 20n],
      ['nothing', true, undefined, undefined],
      ['prompt', false, undefined, undefined],
      ['prompt', true, used(1, 1), 3n],
      ['nothing', true, used(1, 1), 3n]
    ] as const) {
      const ledger = new TestLedger()
      const turn = new Turning('1', { abandoned: left })
      begin(ledger, session(ledger), turn, { abandoned })
      await turn.end(usage)
      t.equal(ledger.rows[1]!.settled?.amount, amount)
      t.equal(ledger.rows[1]!.voided, amount === undefined ? true : undefined)
    }
  }
)

t.test('a turn that was asked for is refused without money, one that has begun is charged all the same', async (t) => {
  for (const asked of [true, false]) {
    const ledger = new TestLedger()
    const running = session(ledger, { limit: 59n })
    const turn = new Turning('1', { asked })
    t.match(begin(ledger, running, turn), { code: 'quota_key_exceeded' })
    t.equal(turn.ends.length, asked ? 0 : 1)
    t.equal(ledger.rows.length, asked ? 1 : 2)
    if (asked) continue
    t.equal(ledger.rows[1]!.request.amount, 0n)
    await turn.end(used(50, 5))
    t.equal(ledger.rows[1]!.settled!.amount, 60n)
  }
})

t.test('sessions of one client secret spend together what it was given, held or charged', async (t) => {
  const ledger = new TestLedger()
  const allowance = new Counted(130n)
  const [one, other] = [session(ledger, { allowance }), session(ledger, { allowance })]
  const [first, second] = [new Turning('1'), new Turning('2')]
  t.equal(begin(ledger, one, first), undefined)
  t.same(allowance.spent(), { posted: 0n, pending: 60n })
  t.equal(begin(ledger, other, second), undefined)
  const refused = begin(ledger, one, new Turning('3'))
  t.equal(
    refused!.message,
    'A response may cost up to 0.00000006 USD, and 0.00000001 USD of what this client secret may spend is left.'
  )
  t.same(refused!.details.reason, {
    by: 'budget',
    level: 'key',
    scope: 'key:k',
    per: 'secret',
    limit_nano: '130',
    asked_nano: '60',
    posted_nano: '0',
    pending_nano: '120',
    left_nano: '10',
    free_at: null
  })
  await first.end(used(30, 10))
  t.same(allowance.spent(), { posted: 50n, pending: 60n })
  await second.end()
  t.same(allowance.spent(), { posted: 50n, pending: 0n }, 'what never began is given back')
  const third = new Turning('4')
  t.equal(begin(ledger, one, third), undefined)
  await third.end(used(100, 0))
  t.equal(allowance.posted, 150n)
  t.match(begin(ledger, one, new Turning('5'))!.details.reason, { left_nano: '0', posted_nano: '150' })
  const exact = new Counted(60n)
  t.equal(begin(ledger, session(ledger, { allowance: exact }), new Turning('6')), undefined, 'to the last nano-dollar')
})

t.test(
  'turns of one client secret that ask while a ledger decides elsewhere do not spend the same money',
  async (t) => {
    const ledger = new TestLedger()
    const allowance = new Counted(100n)
    const running = session(ledger, { allowance })
    let refuse = false
    const elsewhere = {
      ...ledger,
      affordable: () => undefined,
      reserve: async (request: ReserveRequest) => {
        if (refuse && request.amount > 0n) throw new Error('the budget of the key is spent')
        return ledger.reserve(request)
      }
    }
    const setting = { ledger: elsewhere as never, estimate: 'worst', defaultOutput: 10, abandoned: 'prompt' } as const
    const hold = async (turn: Turning): Promise<void> =>
      holdTurn(running as never, running.find(billed)!, turn as never, setting)
    const [first, second] = [new Turning('1'), new Turning('2')]
    const held = [hold(first), hold(second)]
    await held[0]
    await t.rejects(held[1]!, { code: 'quota_key_exceeded' })
    t.equal(allowance.pending, 60n)
    await first.end(used(5, 5))
    t.match(allowance, { posted: 15n, pending: 0n })
    refuse = true
    await t.rejects(hold(new Turning('3')), /the budget of the key/)
    t.equal(allowance.pending, 0n, 'what the ledger refuses is given back')
    const unasked = new Turning('4', { asked: false })
    await t.rejects(hold(unasked), /the budget of the key/)
    await unasked.end(used(5, 5))
    t.match(allowance, { pending: 0n }, 'once')
  }
)

t.test(
  'the hold of a turn ends by the estimate where nobody can compute its charge, and a lost end is told',
  async (t) => {
    const ledger = new TestLedger()
    const running = session(ledger)
    const turn = new Turning('1')
    begin(ledger, running, turn)
    const usage = {
      source: 'upstream',
      get usage(): never {
        throw new Error('This cannot be counted.')
      }
    } as unknown as MeteredUsage
    await turn.end(usage)
    t.match(ledger.rows[1]!.settled, { usage: { input: 20, output: 3 }, source: 'estimated', amount: 26n })
    t.match(running.errors, [/could not be computed/])
    const odd = new Turning('2')
    begin(ledger, running, odd)
    await odd.end(used(-1, 0))
    t.match(ledger.rows[2]!.settled, { usage: { input: 20, output: 0 }, source: 'estimated' })
    t.match(running.errors[1], 'cannot be true')
    for (const counted of [used(1, 1), undefined]) {
      const lost = new Turning('3')
      begin(ledger, running, lost)
      ledger.rows.at(-1)!.voided = true
      await t.rejects(async () => lost.end(counted), { code: 'billing_unavailable' })
    }
    ledger.disk = Promise.reject(new Error('The disk is full.'))
    ledger.disk.catch(() => {})
    for (const counted of [used(1, 1), undefined]) {
      const late = new Turning('4')
      begin(ledger, running, late)
      await t.rejects(late.end(counted), { code: 'billing_unavailable' })
    }
  }
)
