// Compares a bill of an upstream with the journal: by day, model and class, quantities first and money second.
import { costLines } from '../../money/price.ts'
import type { Price } from '../../money/price.ts'
import type { PricedClass } from '../../money/classes.ts'
import type { Entry } from '../../store/embedded/care/ledger-file.ts'
import type { Usage } from '../../money/usage.ts'
import type { Bill } from './bills.ts'

/** Money that differs by less is the same: a nano-dollar, in units of 10⁻¹⁵ dollars. */
const nano = 10n ** 6n
/** A bill may round its lines, but none to more than half of a hundredth of a cent. */
const coarsest = 5n * 10n ** 10n

/**
 * A difference. `only ours`, `only theirs`: the other has nothing there. `quantity`: both counted, and not the same.
 * `price`: the quantity is the same, or nobody said it, and the amount is not.
 */
export interface Difference {
  kind: 'only ours' | 'only theirs' | 'quantity' | 'price'
  day: string
  model: string
  /** A class, or `*` for money that is for all classes together. */
  class: string
  ours: bigint | undefined
  theirs: bigint | undefined
  /** Whether the numbers are of money, in units of 10⁻¹⁵ dollars, and not of units. */
  money: boolean
  /** The likely reason, as far as the journal shows one. */
  reason: string | undefined
}

/** What a comparison found. */
export interface Comparison {
  /** The days that were compared. */
  from: string
  to: string
  differences: Difference[]
  /** Those of the last day, of which late data may still come. */
  pending: Difference[]
  /** Lines of the bill that are not within the period. */
  outside: number
  /** How many quantities and amounts were compared, and agree. */
  equal: number
  /** How many entries of ours have a cost that is not known, so that their money was not compared. */
  uncosted: number
}

/** What one side has of a day, a model and a class. */
interface Side {
  units: bigint | undefined
  money: bigint | undefined
}

interface Place {
  day: string
  model: string
  class: string
  ours: Side
  theirs: Side
  /** By how much their money may be rounded. */
  half: bigint
  /** Our units that nobody counted upstream, by where they are from, and how many entries they are of. */
  doubtful: Map<string, { entries: number; units: bigint }>
  /** Whether the cost of some of our entries is not known. */
  uncosted: boolean
}

/** What a comparison needs besides the bill. */
export interface Books {
  /** Entries in the period, of the channels in question. */
  entries: AsyncIterable<Entry>
  priceOf(version: string): Price | undefined
  /** The name that the upstream has for a model of an entry. */
  upstreamName(entry: Entry): string
  /** The days of the comparison, both included. */
  from: string
  to: string
}

/** Compares a bill with the books. The last day of the bill gets no verdict. */
export async function compare(bill: Bill, { entries, priceOf, upstreamName, from, to }: Books): Promise<Comparison> {
  const places = new Map<string, Place>()
  const place = (day: string, model: string, name: string): Place => {
    const id = `${day}\n${model}\n${name}`
    const none = { units: undefined, money: undefined }
    let found = places.get(id)
    if (!found) {
      const [ours, theirs] = [{ ...none }, { ...none }]
      places.set(
        id,
        (found = { day, model, class: name, ours, theirs, half: 0n, doubtful: new Map(), uncosted: false })
      )
    }
    return found
  }
  // Money that the bill does not tell by model and class is compared by day, or by day and model.
  const money = bill.lines.filter((line) => line.money)
  const byModel = money.some(({ model }) => model !== '')
  const byClass = money.some((line) => line.class !== undefined)
  const modelless = new Set(money.filter(({ model }) => model === '').map((line) => line.class))
  const counted = new Set<string>(bill.lines.filter(({ units }) => units !== undefined).map((line) => line.class!))
  const names = new Set<string>()
  let uncosted = 0
  for await (const entry of entries) {
    const usage = entry.usage as Usage | null
    if (usage === null) continue
    const day = new Date(entry.time).toISOString().slice(0, 10)
    const model = upstreamName(entry)
    names.add(model)
    const price = entry.costPrice === null ? undefined : priceOf(entry.costPrice)
    if (!price) uncosted++
    const due = new Map(price ? costLines(usage, price).map((line) => [line.class, line]) : [])
    for (const [name, number] of Object.entries(usage) as [PricedClass | 'reasoning', number][]) {
      if (name === 'reasoning' || number === 0) continue
      if (counted.has(name)) addUnits(place(day, model, name), BigInt(number), entry)
      if (money.length === 0) continue
      const at = place(day, byModel && !modelless.has(name) ? model : '*', byClass ? name : '*')
      const line = due.get(name)
      if (!price) at.uncosted = true
      at.ours.money = (at.ours.money ?? 0n) + (line ? BigInt(line.units) * line.perMillion : 0n)
      if (!counted.has(name)) doubt(at, BigInt(number), entry)
    }
  }
  let outside = 0
  for (const line of bill.lines) {
    if (line.day < from || line.day > to) {
      outside++
      continue
    }
    const at = place(line.day, line.model === '' ? '*' : known(line.model, names), line.class ?? '*')
    if (line.units !== undefined) at.theirs.units = (at.theirs.units ?? 0n) + line.units
    if (line.money) {
      at.theirs.money = (at.theirs.money ?? 0n) + line.money.amount
      at.half += line.money.half > coarsest ? coarsest : line.money.half
    }
  }
  const last = [...bill.days].sort().at(-1)
  const all = [...places.values()].sort(byPlace)
  const found = all.map((at) => judge(at, money.length > 0))
  const differences = found.flatMap(({ differences }) => differences)
  return {
    from,
    to,
    differences: differences.filter(({ day }) => day !== last),
    pending: differences.filter(({ day }) => day === last),
    outside,
    equal: found.reduce((sum, { equal }) => sum + equal, 0),
    uncosted: money.length > 0 ? uncosted : 0
  }
}

function addUnits(at: Place, units: bigint, entry: Entry): void {
  at.ours.units = (at.ours.units ?? 0n) + units
  doubt(at, units, entry)
}

function doubt(at: Place, units: bigint, { kind, source }: Entry): void {
  const from = kind === 'cost' ? 'of failed attempts' : source
  if (from === null || from === 'upstream') return
  const sum = at.doubtful.get(from) ?? { entries: 0, units: 0n }
  at.doubtful.set(from, { entries: sum.entries + 1, units: sum.units + units })
}

/** The name that we know a model of the bill by: its own, or the one without the date of a snapshot. */
function known(name: string, names: ReadonlySet<string>): string {
  if (names.has(name)) return name
  const plain = name.replace(/-\d{4}-?\d\d-?\d\d$/, '')
  return names.has(plain) ? plain : name
}

function judge(at: Place, hasMoney: boolean): { differences: Difference[]; equal: number } {
  const { ours, theirs, uncosted } = at
  const differences: Difference[] = []
  let equal = 0
  const tell = (kind: Difference['kind'], money: boolean, one: bigint | undefined, other: bigint | undefined): void => {
    const { day, model, class: name } = at
    differences.push({ kind, day, model, class: name, ours: one, theirs: other, money, reason: reasonOf(at) })
  }
  const [one, other] = [ours.units ?? 0n, theirs.units ?? 0n]
  if (one === other) equal += ours.units === undefined && theirs.units === undefined ? 0 : 1
  else tell(one === 0n ? 'only theirs' : other === 0n ? 'only ours' : 'quantity', false, ours.units, theirs.units)
  if (!hasMoney || one !== other || (ours.money === undefined && theirs.money === undefined))
    return { differences, equal }
  if (uncosted && theirs.money !== undefined) return { differences, equal }
  const [due, asked] = [ours.money ?? 0n, theirs.money ?? 0n]
  const apart = due > asked ? due - asked : asked - due
  if (apart <= (at.half < nano ? nano : at.half)) equal++
  else if (theirs.money === undefined) tell('only ours', true, due, undefined)
  else tell(ours.money === undefined ? 'only theirs' : 'price', true, ours.money, asked)
  return { differences, equal }
}

function reasonOf({ doubtful }: Place): string | undefined {
  if (doubtful.size === 0) return undefined
  const parts = [...doubtful].map(
    ([source, { entries, units }]) => `${units} units in ${entries} ${entries === 1 ? 'entry' : 'entries'} ${source}`
  )
  return `of ours: ${parts.join(', ')}`
}

function byPlace(one: Place, other: Place): number {
  const [a, b] = [one, other].map((at) => `${at.day}\n${at.model}\n${at.class}`) as [string, string]
  return a < b ? -1 : a > b ? 1 : 0
}
