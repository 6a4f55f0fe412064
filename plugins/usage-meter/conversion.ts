// What was counted in units that have no price, in those that have one: an estimate, so that it is not free in silence.
import { isFree, pricedClasses } from '../../core/contract/contract.ts'
import type { Rates } from '../../core/money/price.ts'
import type { MeteredUsage } from '../../core/contract/slots.ts'
import type { Usage } from '../../core/money/usage.ts'

/** Tokens of one unit, where units have no price and tokens do: of a picture in high quality, of a second of sound. */
const pictureTokens = 4160
const heardTokens = 10
const writtenTokens = 4
/**
 * Tokens of the text, and of the sound, of a character that is spoken: four to a token, 15 to a second of 20 tokens.
 */
const readTokens = 0.25
const spokenTokens = 4 / 3

/** What a request itself tells of units, asked for only where the usage has none with a price. */
export interface Pieces {
  readonly searches: number
  /** Of sound that it brings. */
  readonly seconds: number
  /** Tokens of its text, by estimate. */
  readonly input: number
}

/** The usage as it is to be charged at these rates. It is an estimate where nothing that was counted has a price. */
export function chargeableAt(metered: MeteredUsage, rates: Rates, pieces: () => Pieces): MeteredUsage {
  const { usage } = metered
  if (isCharged(usage, rates) || isFree({ perMillion: rates }) || isEmpty(usage)) return metered
  const { searches, seconds, input } = pieces()
  const { character = 0, image = 0, second = 0, search = 0 } = usage
  const more: Partial<Usage> = {
    ...(rates.search !== undefined && { search: searches }),
    ...(rates.second !== undefined && seconds > 0 && { second: seconds }),
    ...tokens('input', search > 0 ? input : Math.ceil(character * readTokens), usage),
    ...tokens('audio_output', Math.ceil(character * spokenTokens), usage),
    ...tokens('image_output', image * pictureTokens, usage),
    ...tokens('audio_input', second * heardTokens, usage),
    ...tokens('output', second * writtenTokens, usage)
  }
  return { usage: { ...usage, ...more }, source: metered.source === 'partial' ? 'partial' : 'estimated' }
}

function tokens(
  name: 'input' | 'output' | 'audio_input' | 'audio_output' | 'image_output',
  count: number,
  usage: Usage
): Partial<Usage> {
  return count > 0 ? { [name]: (usage[name] ?? 0) + count } : {}
}

function isCharged(usage: Readonly<Usage>, rates: Rates): boolean {
  return rates.request !== undefined || pricedClasses.some((name) => usage[name] && rates[name] !== undefined)
}

function isEmpty(usage: Readonly<Usage>): boolean {
  return pricedClasses.every((name) => !usage[name])
}
