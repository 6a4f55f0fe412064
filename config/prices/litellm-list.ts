// Converts prices from the JSON format of LiteLLM's model_prices_and_context_window.json to models of gateway.yaml.
// Digits are copied exactly, never through a floating-point number.
import { isMap } from '../../core/options/schema-check.ts'
import { isByQuantity, pricedClasses } from '../../core/money/classes.ts'
import { convertUnit } from '../../core/options/units.ts'
import { modelNames } from '../names.ts'
import { exactly, written } from './decimal.ts'
import type { PricedClass } from '../../core/money/classes.ts'

/** What happened to a field: its value was taken over, something similar was, or nothing was. */
export type Fate = 'mapped' | 'approximated' | 'dropped'

/** A field, and the models in which the same happened to it. */
export interface FieldReport {
  field: string
  fate: Fate
  /** Which key it became, or why it was dropped. */
  note: string
  models: string[]
}

/** The result of an import. */
export interface Imported {
  /** The section `models` of gateway.yaml. */
  yaml: string
  models: number
  fields: FieldReport[]
  leftOut: { model: string; reason: string }[]
}

/**
 * Imports the models for which `wanted` is true. `reached` is told of how many were gone through, and how many there
 * are.
 * @throws Error when the text is not in the format
 */
export function importPrices(
  text: string,
  wanted: (name: string) => boolean,
  reached: (models: number, of: number) => void = () => {}
): Imported {
  const fields = new Map<string, FieldReport>()
  const leftOut: Imported['leftOut'] = []
  const lines: string[] = []
  let models = 0
  const entries = readEntries(text)
  for (const [index, [model, entry]] of entries.entries()) {
    reached(index, entries.length)
    if (notModels.has(model) || !wanted(model)) continue
    const tell: Tell = (field, fate, note) => {
      const id = `${field} ${fate} ${note}`
      const report = fields.get(id)
      if (report) report.models.push(model)
      else fields.set(id, { field, fate, note, models: [model] })
    }
    const reason = properName.test(model) ? undefined : `the name is not ${modelNames.patternErrorMessage}`
    const made = reason ?? (isMap(entry) ? new Reader(entry, tell).read() : 'is not an object')
    if (typeof made === 'string') leftOut.push({ model, reason: made })
    else {
      models++
      lines.push(`  ${scalar(model)}:`, ...made.map((line) => `    ${line}`))
    }
  }
  return { yaml: ['models:', ...lines, ''].join('\n'), models, fields: [...fields.values()], leftOut }
}

const properName = new RegExp(modelNames.pattern, 'u')
/** Keys of the file that are not models. */
const notModels: ReadonlySet<string> = new Set(['sample_spec', 'fallback_generalizations'])

type Tell = (field: string, fate: Fate, note: string) => void

/** Parses the entries, keeping each number as its text. */
function readEntries(text: string): [string, unknown][] {
  const data: unknown = JSON.parse(text, (_name: string, value: unknown, context?: { source: string }) =>
    typeof value === 'number' ? context!.source : value
  )
  if (!isMap(data)) throw new Error('it is no object of models by name')
  return Object.entries(data)
}

const tokenFields: ReadonlyMap<string, PricedClass> = new Map(
  Object.entries({
    input_cost_per_token: 'input',
    cache_read_input_token_cost: 'cached_input',
    input_cost_per_token_cache_hit: 'cached_input',
    cache_creation_input_token_cost: 'cache_write',
    cache_creation_input_token_cost_above_1hr: 'cache_write_long',
    output_cost_per_token: 'output',
    input_cost_per_audio_token: 'audio_input',
    output_cost_per_audio_token: 'audio_output',
    input_cost_per_image_token: 'image_input',
    output_cost_per_image_token: 'image_output',
    input_cost_per_character: 'character'
  } as const)
)
/** The fields with a price for one unit. When several are for the same class, the highest price is taken. */
const unitFields: ReadonlyMap<string, readonly [PricedClass, Fate, string]> = new Map(
  Object.entries({
    output_cost_per_image: ['image', 'mapped', ''],
    input_cost_per_image: ['image', 'approximated', ', taking a picture that is made for one that is given'],
    input_cost_per_request: ['request', 'mapped', ''],
    input_cost_per_query: ['search', 'mapped', ''],
    input_cost_per_second: ['second', 'mapped', ''],
    output_cost_per_second: ['second', 'mapped', '']
  } as const)
)
/** Classes that are counted in tokens instead when the class of tokens has a price. */
const inTokens: ReadonlyMap<PricedClass, PricedClass> = new Map([
  ['image', 'image_output'],
  ['second', 'audio_input']
])
/** Fields with a price for something that is counted within another class. */
const within: ReadonlyMap<string, PricedClass> = new Map(
  Object.entries({
    output_cost_per_reasoning_token: 'output',
    cache_read_input_audio_token_cost: 'cached_input',
    cache_creation_input_audio_token_cost: 'cache_write'
  } as const)
)
/** Why other fields are dropped. The first pattern that matches applies. */
const reasons: readonly (readonly [RegExp, string])[] = [
  [/_(batches|flex|priority)$/, 'is for another service level'],
  [/^(supports_|supported_|max_|mode$|source$|metadata$|comment$|provider_specific)/, 'says nothing of prices'],
  [/^(rpm|tpm)$/, 'limits belong to keys'],
  [/uplift/, 'is for some regions only'],
  [
    /search|file_|code_interpreter|computer_use|grounding|guardrail|vector_store/,
    'is for tools, which are not charged'
  ],
  [/cost/, 'is for units that are not counted']
]

/** The ending of a field with a price for long prompts. */
const longer = /_above_(\d{1,6})k_tokens$/

/** Exact prices by class, in 10⁻¹⁵ dollars per unit, which is nano-dollars per million units. */
type Rates = Map<PricedClass, bigint>

/** The keys of an imported model, in this order. */
const order = ['owned_by', 'price', 'context_window', 'max_output_tokens', 'deprecated'] as const

/** Converts one entry. */
class Reader {
  readonly #entry: Record<string, unknown>
  readonly #tell: Tell
  readonly #base: Rates = new Map()
  readonly #tiers = new Map<number, Rates>()
  readonly #lines = new Map<(typeof order)[number], string>()

  constructor(entry: Record<string, unknown>, tell: Tell) {
    this.#entry = entry
    this.#tell = tell
  }

  /** Returns the lines of the model, or the reason why there is none. */
  read(): string[] | string {
    const fields = Object.entries(this.#entry)
    const ofTokens = ([field]: [string, unknown]): boolean => tokenFields.has(field.replace(longer, ''))
    for (const [field, value] of fields.filter(ofTokens)) this.#tokens(field, value)
    for (const [field, value] of fields.filter((field) => !ofTokens(field))) this.#other(field, value)
    if (this.#base.size === 0) return 'has no price that can be taken over'
    this.#complete('input', 'output')
    this.#complete('output', 'input')
    this.#lines.set('price', `{ ${[...ratesOf(this.#base), ...tiersOf(this.#tiers)].join(', ')} }`)
    return order.flatMap((name) => (this.#lines.has(name) ? [`${name}: ${this.#lines.get(name)}`] : []))
  }

  #tokens(field: string, value: unknown): void {
    const name = tokenFields.get(field.replace(longer, ''))!
    const thousands = longer.exec(field)?.[1]
    if (thousands === undefined) return this.#rate(this.#base, name, field, value, ['mapped', `price.${name}`])
    const above = Number(thousands) * 1000
    this.#rate(this.#tier(above), name, field, value, ['mapped', `price.tiers above ${above}: ${name}`])
  }

  #other(field: string, value: unknown): void {
    const unit = unitFields.get(field)
    const text = typeof value === 'string' ? value : ''
    if (unit) this.#unit(field, value, unit)
    else if (within.has(field.replace(longer, ''))) this.#within(field, value)
    else if (field === 'tiered_pricing' && Array.isArray(value)) this.#tiered(value)
    else if (field === 'litellm_provider' && text !== '')
      this.#line('owned_by', scalar(text).replaceAll('$', '$$$$'), field, ['mapped', 'owned_by'])
    else if (field === 'max_output_tokens' && isCount(text))
      this.#line('max_output_tokens', text, field, ['mapped', 'max_output_tokens'])
    else if (field === 'max_input_tokens' && isCount(text)) {
      this.#line('context_window', text, field, [
        'approximated',
        'context_window, which is for input and output together'
      ])
    } else if (field === 'deprecation_date' && convertUnit('date', text) !== undefined) {
      this.#line('deprecated', `{ since: ${text}, sunset: ${text} }`, field, [
        'approximated',
        'deprecated, which has the day of the announcement too'
      ])
    } else if (/cost/.test(field) && exactly(value)?.value === 0n) this.#tell(field, 'mapped', 'is 0')
    else this.#tell(field, 'dropped', reasons.find(([pattern]) => pattern.test(field))?.[1] ?? 'is not known')
  }

  #line(name: (typeof order)[number], text: string, field: string, [fate, note]: readonly [Fate, string]): void {
    this.#lines.set(name, text)
    this.#tell(field, fate, note)
  }

  #unit(field: string, value: unknown, [name, fate, remark]: readonly [PricedClass, Fate, string]): void {
    const tokens = inTokens.get(name)
    if (tokens && this.#base.has(tokens)) this.#tell(field, 'dropped', `would be charged beside price.${tokens}`)
    else if (field === 'input_cost_per_image' && !this.#makesPictures)
      this.#tell(field, 'dropped', 'is for pictures in a prompt, which are counted in tokens')
    else this.#rate(this.#base, name, field, value, [fate, `price.${name}${remark}`])
  }

  get #makesPictures(): boolean {
    const { mode } = this.#entry
    return typeof mode === 'string' && mode.startsWith('image_')
  }

  #within(field: string, value: unknown): void {
    const name = within.get(field.replace(longer, ''))!
    const same = !longer.test(field) && exactly(value)?.value === (this.#base.get(name) ?? this.#base.get('input'))
    this.#tell(
      field,
      same ? 'mapped' : 'approximated',
      same ? `is what price.${name} is` : `is charged as price.${name}`
    )
  }

  /**
   * Reads `[{ range: [from, to], input_cost_per_token, … }]`. The range from 0 has the base price, the others become
   * tiers.
   */
  #tiered(list: readonly unknown[]): void {
    const sound = list
      .filter(isMap)
      .map((tier) => ({ tier, from: Number(Array.isArray(tier['range']) ? tier['range'][0] : NaN) }))
    if (
      sound.length < list.length ||
      !sound.every(({ from }) => Number.isInteger(from) && from >= 0 && from <= 1_000_000_000)
    ) {
      return this.#tell('tiered_pricing', 'dropped', 'is not by the length of the prompt')
    }
    for (const { tier, from } of sound) {
      for (const [field, value] of Object.entries(tier)) {
        const name = tokenFields.get(field)
        const at = `tiered_pricing.${field}`
        const note = `${from === 0 ? 'price' : 'price.tiers'}: ${name}, for all of a prompt that is longer`
        if (name !== undefined)
          this.#rate(from === 0 ? this.#base : this.#tier(from), name, at, value, ['approximated', note])
        else if (field !== 'range') this.#tell(at, 'dropped', 'is not known')
      }
    }
  }

  #tier(above: number): Rates {
    let rates = this.#tiers.get(above)
    if (!rates) this.#tiers.set(above, (rates = new Map()))
    return rates
  }

  /** Sets the price of a class. Of two prices the higher one is taken. */
  #rate(rates: Rates, name: PricedClass, field: string, value: unknown, [fate, note]: readonly [Fate, string]): void {
    const rate = exactly(value)
    if (!rate) return this.#tell(field, 'dropped', 'is no price from 0 to 1000 dollars')
    const other = rates.get(name)
    if (other !== undefined && other !== rate.value && other !== 0n && rate.value !== 0n)
      this.#tell(field, 'approximated', `${note}; the dearest of several`)
    else
      this.#tell(
        field,
        rate.exact ? fate : 'approximated',
        rate.exact ? note : `${note}, rounded to a nano-dollar per million`
      )
    if (other === undefined || rate.value > other) rates.set(name, rate.value)
  }

  /** gateway.yaml requires both input and output, so a missing one becomes 0. */
  #complete(name: 'input' | 'output', other: 'input' | 'output'): void {
    if (this.#base.has(name) || !this.#base.has(other)) return
    this.#base.set(name, 0n)
    this.#tell(`${name}_cost_per_token`, 'approximated', `is missing: price.${name} is 0`)
  }
}

function isCount(text: string): boolean {
  return /^[1-9]\d{0,8}$/.test(text)
}

function ratesOf(rates: Rates): string[] {
  return pricedClasses.flatMap((name) => {
    const rate = rates.get(name)
    return rate === undefined ? [] : [`${name}: ${written(rate, isByQuantity(name) ? 9 : 15)}`]
  })
}

function tiersOf(tiers: ReadonlyMap<number, Rates>): string[] {
  const sorted = [...tiers].filter(([, rates]) => rates.size > 0).sort(([a], [b]) => a - b)
  if (sorted.length === 0) return []
  return [`tiers: [${sorted.map(([above, rates]) => `{ above: ${above}, ${ratesOf(rates).join(', ')} }`).join(', ')}]`]
}

/** Writes a text as YAML, in quotes unless it is a plain word. */
function scalar(text: string): string {
  return /^[A-Za-z][\w./-]*$/.test(text) && !/^(true|false|null|yes|no|on|off|y|n)$/i.test(text)
    ? text
    : JSON.stringify(text)
}
