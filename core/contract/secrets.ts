// What only the upstream of a channel is to know: found in texts in all its spellings, and taken out of them.
import type { Channel } from '../catalogue/catalogue.ts'
import { mark, withoutIdentities } from '../protocols/identities.ts'

/** What is shorter could be any word: as a whole secret, as a part of one, and as the beginning of one that is cut. */
const shortest = { whole: 4, part: 8, beginning: 6 }

/** A secret, and for each of its beginnings the longest other one that it ends with (Knuth, Morris and Pratt). */
interface Secret {
  readonly text: string
  readonly borders: readonly number[]
}

/** The secrets of some channels. */
export class Secrets {
  readonly #all: readonly Secret[]
  readonly #anyOf: RegExp | undefined

  /** `of`: all that clients must not see, or keys alone, for operators, who know their addresses. */
  constructor(channels: Iterable<Channel>, of: 'all' | 'keys' = 'all') {
    const spellings = [...channels].flatMap((channel) => spellingsOf(channel, of))
    // The longest first: one may begin with another.
    const found = [...new Set(spellings)].sort((a, b) => b.length - a.length)
    this.#all = found.map((text) => ({ text, borders: bordersOf(text) }))
    const escaped = found.map((secret) => secret.replace(/[^\w ]/g, (char) => `\\${char}`))
    this.#anyOf = escaped.length > 0 ? new RegExp(escaped.join('|'), 'gi') : undefined
  }

  /** The text without them, without the beginning of one at its end, and without anybody's keys and accounts. */
  without(text: string): string {
    const clean = this.#anyOf ? text.replace(this.#anyOf, mark) : text
    return withoutIdentities(this.#withoutBeginning(clean))
  }

  /** Whoever says something may cut it, as we do, in the midst of a secret. */
  #withoutBeginning(text: string): string {
    if (text.length < shortest.beginning) return text
    for (const secret of this.#all) {
      const length = beginningAtEnd(text, secret)
      if (length >= shortest.beginning) return text.slice(0, -length) + mark
    }
    return text
  }
}

/** Of each channel, from its first error on. */
const known = new WeakMap<Channel, Secrets>()

/** Of one channel. */
export function secretsOf(channel: Channel): Secrets {
  let secrets = known.get(channel)
  if (!secrets) known.set(channel, (secrets = new Secrets([channel])))
  return secrets
}

/** Everything that the file says of the channel and that only the upstream was to know, as it may be spelled. */
function spellingsOf({ credential, headers, baseUrl }: Channel, of: 'all' | 'keys'): string[] {
  const found: string[] = []
  const add = (value: string, least: number): void => {
    if (value.length < least) return
    const json = JSON.stringify(value).slice(1, -1)
    found.push(value, json, json.replaceAll('/', '\\/'), encodeURIComponent(value))
  }
  const least = of === 'all' ? shortest.whole : shortest.part
  for (const value of [credential, ...Object.values(headers)]) {
    add(value, least)
    // `Bearer …`, `name=…; other=…`: quoted without what stands around it.
    for (const part of value.split(/[\s,;=]+/)) add(part, shortest.part)
  }
  for (const value of baseUrl.searchParams.values()) add(value, least)
  if (of === 'keys') return found
  for (const value of [baseUrl.host, baseUrl.hostname]) add(value, least)
  for (const part of baseUrl.pathname.split('/')) add(part, shortest.part)
  return found
}

function bordersOf(text: string): number[] {
  const borders = [0]
  for (let at = 1, length = 0; at < text.length; at++) {
    while (length > 0 && text[at] !== text[length]) length = borders[length - 1]!
    if (text[at] === text[length]) length++
    borders.push(length)
  }
  return borders
}

/** How many letters of a secret, but not all, the text ends with; in one pass over its end. */
function beginningAtEnd(text: string, { text: secret, borders }: Secret): number {
  let length = 0
  for (let at = Math.max(0, text.length - secret.length + 1); at < text.length; at++) {
    while (length > 0 && text[at] !== secret[length]) length = borders[length - 1]!
    if (text[at] === secret[length]) length++
  }
  return length
}
