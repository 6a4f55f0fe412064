// Converts units without a price to units that have one. The result is an estimate, so that nothing is silently free.
import { pricedClasses } from '../../core/contract/contract.ts'
import type { Rates } from '../../core/money/price.ts'
import type { MeteredUsage } from '../../core/contract/slots.ts'
import type { Usage } from '../../core/money/usage.ts'

/** The tokens of a picture in high quality, of a second of sound that is heard, and of the text in that second. */
const pictureTokens = 4160
const heardTokens = 10
const writtenTokens = 4
/**
 * The text tokens and the sound tokens of a spoken character: four characters are a text token, and 15 characters are a
 * second of 20 sound tokens.
 */
const readTokens = 0.25
const spokenTokens = 4 / 3

/** The units that a request itself tells. They are looked for only when the usage has no unit with a price. */
export interface Pieces {
  readonly searches: number
  /** The length of the sound in the request. */
  readonly seconds: number
  /** The tokens of its text, estimated. */
  readonly input: number
}

/** Returns the usage to charge at these rates. It is an estimate when no counted unit has a price. */
export function chargeableAt(metered: MeteredUsage, rates: Rates, pieces: () => Pieces): MeteredUsage {
  const { usage } = metered
  if (isCharged(usage, rates) || isByCall(rates) || isEmpty(usage)) return metered
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
  return pricedClasses.some((name) => usage[name] && rates[name] !== undefined)
}

/** Whether nothing but the call itself has a price, so that no unit could be converted to one that has. */
function isByCall(rates: Rates): boolean {
  return pricedClasses.every((name) => name === 'request' || rates[name] === undefined)
}

function isEmpty(usage: Readonly<Usage>): boolean {
  return pricedClasses.every((name) => !usage[name])
}
