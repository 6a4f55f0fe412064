// Random prices and usages, hostile ones included, from the digits in the file to the charge: against fractions that
// share nothing with the product.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { loadConfig } from '../../config/load.ts'
import { Message } from '../../core/contract/message.ts'
import { costOf, parsePrice, renderPrice } from '../../core/money/price.ts'
import type { Price } from '../../core/money/price.ts'
import { protocols } from '../../core/protocols/index.ts'
import { dueFor, readPrice } from '../../core/store/embedded/database/due.ts'
import type { Usage } from '../../core/money/usage.ts'
import { plugins } from '../config/plugins.ts'
import { chance, folder, long } from './rig.ts'

const cases = long ? 1_000_000 : 10_000
const usagesPerPrice = 250
t.setTimeout(long ? 1_800_000 : 600_000)

const random = chance(Number(process.env['SLUICE_SEED'] ?? 20261121))
const pick = <T>(list: readonly T[]): T => list[random(list.length)]!

/** A decimal as digits and how many of them come after the point. */
interface Decimal {
  digits: bigint
  places: number
}

/** Prices of one length of prompt, as the file has them. */
type Written = Record<string, Decimal>

interface Model {
  per: '1M' | '1K' | '1'
  base: Written
  /** Shortest prompts first; each is complete but for what stands in base. */
  tiers: { above: number; changes: Written }[]
}

const tokenClasses = [
  'input',
  'output',
  'cached_input',
  'cache_write',
  'audio_input',
  'image_input',
  'audio_output',
  'image_output'
]
const singleClasses = ['request', 'image', 'second']
const ofPrompt = ['input', 'cached_input', 'cache_write', 'audio_input', 'image_input']
const parentOf: Readonly<Record<string, string>> = {
  cached_input: 'input',
  cache_write: 'input',
  audio_input: 'input',
  image_input: 'input',
  audio_output: 'output',
  image_output: 'output'
}
/** The most decimals that the manual allows, and how many units the price is for. */
const scales = {
  '1M': { places: 9, units: 1_000_000n },
  '1K': { places: 12, units: 1000n },
  '1': { places: 15, units: 1n }
} as const

/** Up to about a hundred dollars for what it is a price of; zero now and then. */
function decimal(most: number): Decimal {
  const places = random(most + 1)
  const whole = random(10) === 0 ? 0 : random(100)
  const size = 10n ** BigInt(places)
  const fraction = (BigInt(random(2 ** 31)) * BigInt(2 ** 31) + BigInt(random(2 ** 31))) % size
  return random(20) === 0 ? { digits: 0n, places } : { digits: BigInt(whole) * size + fraction, places }
}

/** As somebody may write it: plain, or with an exponent behind at most twelve digits. */
function text({ digits, places }: Decimal): string {
  if (random(4) === 0 && digits < 10n ** 12n) return `${digits}e-${places}`
  const padded = String(digits).padStart(places + 1, '0')
  return places === 0 ? padded : `${padded.slice(0, -places)}.${padded.slice(-places)}`
}

function model(): Model {
  const per = pick(['1M', '1M', '1K', '1'] as const)
  const { places } = scales[per]
  const some = (names: readonly string[], most: number): Written =>
    Object.fromEntries(names.filter(() => random(3) === 0).map((name) => [name, decimal(most)]))
  const base = {
    ...some(tokenClasses, places),
    ...some(singleClasses, 15),
    input: decimal(places),
    output: decimal(places)
  }
  const bounds = [...new Set(Array.from({ length: random(4) }, () => 1 + random(pick([50, 5000, 1_000_000]))))].sort(
    (a, b) => a - b
  )
  return {
    per,
    base,
    tiers: bounds.map((above) => ({ above, changes: { ...some(tokenClasses, places), input: decimal(places) } }))
  }
}

function asFile({ per, base, tiers }: Model): object {
  const rates = (written: Written): object =>
    Object.fromEntries(Object.entries(written).map(([name, rate]) => [name, text(rate)]))
  return {
    per,
    ...rates(base),
    ...(tiers.length > 0 && { tiers: tiers.map(({ above, changes }) => ({ above, ...rates(changes) })) })
  }
}

/** A fraction, neither reduced nor negative. */
class Fraction {
  readonly top: bigint
  readonly bottom: bigint

  constructor(top: bigint, bottom: bigint) {
    this.top = top
    this.bottom = bottom
  }

  plus({ top, bottom }: Fraction): Fraction {
    return bottom === this.bottom
      ? new Fraction(this.top + top, bottom)
      : new Fraction(this.top * bottom + top * this.bottom, this.bottom * bottom)
  }

  /** Whether an integer is nearest to it, halves up: their distance is in [-1/2, 1/2). */
  roundsTo(whole: bigint): boolean {
    const twice = 2n * (this.top - whole * this.bottom)
    return -this.bottom <= twice && twice < this.bottom
  }
}

type Counts = Readonly<Record<string, number>>

/** The cost in nano-dollars before it is rounded, by the manual. */
function exactCost({ per, base, tiers }: Model, counts: Counts): Fraction {
  const prompt = ofPrompt.reduce((sum, name) => sum + BigInt(counts[name] ?? 0), 0n)
  let rates = base
  for (const { above, changes } of tiers) if (prompt > BigInt(above)) rates = { ...base, ...changes }
  let sum = new Fraction(0n, 1n)
  for (const name of [...tokenClasses, ...singleClasses]) {
    const rate = rates[name] ?? rates[parentOf[name] ?? '']
    if (!rate || !counts[name]) continue
    const units = singleClasses.includes(name) ? 1n : scales[per].units
    sum = sum.plus(
      new Fraction(BigInt(counts[name]) * rate.digits * 1_000_000_000n, 10n ** BigInt(rate.places) * units)
    )
  }
  return sum
}

const some = (): number =>
  pick([
    () => 0,
    () => random(8),
    () => random(3000),
    () => random(5_000_000),
    () => random(2 ** 31) * (1 + random(2 ** 9))
  ])()

/** What an honest upstream counts, with lengths at the edges of tiers. */
function honest({ tiers }: Model): Counts {
  const counts = Object.fromEntries(
    [...tokenClasses, ...singleClasses].filter(() => random(2) === 0).map((name) => [name, some()])
  )
  if (random(200) === 0) counts['output'] = Number.MAX_SAFE_INTEGER
  if (tiers.length > 0 && random(3) === 0) {
    for (const name of ofPrompt) delete counts[name]
    const length = pick(tiers).above + random(2)
    const part = random(length + 1)
    Object.assign(counts, { [pick(ofPrompt.slice(1))]: part, input: length - part })
  }
  return counts
}

const monsters: readonly unknown[] = [
  -1,
  -0.5,
  0.5,
  1e308,
  -1e308,
  2 ** 53,
  2 ** 53 + 2,
  '10',
  '',
  true,
  false,
  {},
  [],
  [3]
]
const parts = {
  cached_input: 'cached_tokens',
  cache_write: 'cache_write_tokens',
  audio_input: 'audio_tokens',
  image_input: 'image_tokens'
}

/**
 * A report in the form of the protocol, which may be anything; and what it counts, undefined when it must not be
 * believed.
 */
function hostile(): { wire: object; counts: Counts | undefined } {
  const odd = (count: number | undefined): unknown =>
    random(12) === 0 ? pick(monsters) : random(10) === 0 ? (random(2) === 0 ? null : undefined) : count
  const inner = Object.fromEntries(Object.values(parts).map((name) => [name, odd(random(3) === 0 ? random(60) : 0)]))
  const prompt = odd(random(5000))
  const completion = odd(random(3000))
  const reasoning = odd(random(3) === 0 ? random(500) : 0)
  const audio = odd(random(3) === 0 ? random(40) : 0)
  const whole = typeof prompt === 'number' && typeof completion === 'number' ? prompt + completion : random(9000)
  const total = odd(
    random(6) === 0 && typeof reasoning === 'number' ? whole + reasoning : random(10) === 0 ? random(9000) : whole
  )
  const wire = {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: total,
    prompt_tokens_details: inner,
    completion_tokens_details: { reasoning_tokens: reasoning, audio_tokens: audio }
  }
  const said = [prompt, completion, total, reasoning, audio, ...Object.values(inner)].filter(
    (value) => value !== undefined && value !== null
  )
  if (
    said.some(
      (value) => typeof value !== 'number' || !Number.isInteger(value) || value < 0 || value > Number.MAX_SAFE_INTEGER
    )
  )
    return { wire, counts: undefined }
  const number = (value: unknown): number => (typeof value === 'number' ? value : 0)
  const given = (value: unknown): value is number => typeof value === 'number'
  // One side that is missing follows from the total.
  if ([prompt, completion, total].filter(given).length < 2) return { wire, counts: undefined }
  const input = given(prompt) ? prompt : number(total) - number(completion)
  let output = given(completion) ? completion : number(total) - number(prompt)
  if (input < 0 || output < 0) return { wire, counts: undefined }
  // What neither side has was thought.
  output = Math.max(output, number(total) - input)
  const counts: Record<string, number> = { output: output - number(audio), audio_output: number(audio) }
  for (const [name, field] of Object.entries(parts)) counts[name] = number(inner[field])
  counts['input'] = input - Object.keys(parts).reduce((sum, name) => sum + counts[name]!, 0)
  // Cached tokens that cannot all be text are pictures, and then audio.
  if (counts['audio_input']! + counts['image_input']! <= input) {
    for (const name of ['image_input', 'audio_input']) {
      const shared = Math.max(0, Math.min(counts[name]!, -counts['input']))
      counts[name]! -= shared
      counts['input'] += shared
    }
  }
  return {
    wire,
    counts: Object.values(counts).some((count) => count < 0) || number(reasoning) > output ? undefined : counts
  }
}

const chat = protocols['openai-chat']

t.test(`${cases} random usages at random prices cost their exact fraction, rounded once`, (t) => {
  const file = join(folder(t), 'gateway.yaml')
  const load = (models: readonly Model[]): Price[] => {
    const names = models.map((_, index) => `m${index}`)
    const channels = { demo: { protocol: 'simulator', models: Object.fromEntries(names.map((name) => [name, name])) } }
    writeFileSync(
      file,
      JSON.stringify({
        channels,
        models: Object.fromEntries(models.map((one, index) => [names[index], { price: asFile(one) }])),
        chain: ['auth']
      })
    )
    const { config, problems } = loadConfig(file, { env: {}, plugins, simulatorUrl: new URL('http://127.0.0.1:1/v1') })
    if (!config) throw new Error(problems.map(({ place, message }) => `${place} ${message}`).join('\n'))
    return names.map((name) => config.models.get(name)!.prices[0]!.price)
  }
  const wrong: unknown[] = []
  const complain = (what: object): void => void (wrong.length < 5 && wrong.push(what))
  let done = 0
  let prices = 0
  let tiered = 0
  let believed = 0
  let rejected = 0
  let sum = 0n
  let exactSum = new Fraction(0n, 10n ** 24n)
  while (done < cases) {
    const models = Array.from({ length: Math.min(200, Math.ceil((cases - done) / usagesPerPrice)) }, model)
    const loaded = load(models)
    prices += models.length
    for (const [index, one] of models.entries()) {
      const price = loaded[index]!
      const stored = renderPrice(price)
      const restored = parsePrice(price.version, stored)
      const checked = readPrice(stored)
      for (let use = 0; use < usagesPerPrice && done < cases; use++, done++) {
        const from = random(8) === 0 ? hostile() : undefined
        const counts = from ? from.counts : honest(one)
        const usage = from
          ? chat.readUsage(Message.event(JSON.stringify({ choices: [], usage: from.wire })))
          : (counts as unknown as Usage)
        if (counts === undefined || usage === undefined || usage === 'insane') {
          rejected++
          if (counts !== undefined || (usage !== undefined && usage !== 'insane'))
            complain({ report: from?.wire, counts, usage })
          continue
        }
        if (from) believed++
        const exact = exactCost(one, counts)
        const cost = costOf(usage, price)
        if (one.tiers.length > 0) tiered++
        if (!exact.roundsTo(cost)) complain({ price: one, counts, cost, exact })
        if (costOf(usage, restored) !== cost)
          complain({ price: one, counts, cost, 'when stored': costOf(usage, restored) })
        if (dueFor(JSON.stringify(usage), checked) !== cost)
          complain({ price: one, counts, cost, 'as it is checked': dueFor(JSON.stringify(usage), checked) })
        sum += cost
        exactSum = exactSum.plus(new Fraction((exact.top * exactSum.bottom) / exact.bottom, exactSum.bottom))
      }
    }
  }
  t.same(wrong, [])
  t.ok(tiered > cases / 4 && believed > cases / 50 && rejected > cases / 50, 'enough of everything')
  // Rounding neither adds nor takes: over all of them it is off by much less than half a nano-dollar each.
  const off = Number(sum - exactSum.top / exactSum.bottom)
  t.ok(Math.abs(off) < cases / 50, `off by ${off} nano-dollars in all`)
  t.comment(
    `${cases} usages, ${prices} prices; ${tiered} at tiers, ${believed} odd reports believed and ${rejected} not; differing 0, ${off} nano-dollars off the exact sum of ${sum}`
  )
  t.end()
})
