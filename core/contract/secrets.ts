// Secrets of a channel, which only its upstream may know: finds them in texts, in all spellings, and takes them out.
import type { Channel } from '../catalogue/catalogue.ts'
import { credentialOf } from '../credentials/credentials.ts'
import { mark, withoutIdentities } from '../protocols/told/identities.ts'

/**
 * The fewest characters of a whole secret, of a part of one, and of the cut beginning of one. Anything shorter could be
 * any word.
 */
const shortest = { whole: 4, part: 8, beginning: 6 }

/**
 * A secret with its table of borders (Knuth, Morris and Pratt): for each beginning of it, the length of the longest
 * shorter beginning that this one ends with.
 */
interface Secret {
  readonly text: string
  readonly borders: readonly number[]
}

/** The secrets of some channels. */
export class Secrets {
  readonly #all: readonly Secret[]
  readonly #anyOf: RegExp | undefined

  /** `all`: everything that clients must not see. `keys`: keys alone, for operators, who know the addresses. */
  constructor(channels: Iterable<Channel>, of: 'all' | 'keys' = 'all') {
    const spellings = [...channels].flatMap((channel) => spellingsOf(channel, of))
    // The longest first, because one secret may begin with another.
    const found = [...new Set(spellings)].sort((a, b) => b.length - a.length)
    this.#all = found.map((text) => ({ text, borders: bordersOf(text) }))
    const escaped = found.map((secret) => secret.replace(/[^\w ]/g, (char) => `\\${char}`))
    this.#anyOf = escaped.length > 0 ? new RegExp(escaped.join('|'), 'gi') : undefined
  }

  /** The text without the secrets, without the cut beginning of one at its end, and without identities of accounts. */
  without(text: string): string {
    const clean = this.#anyOf ? text.replace(this.#anyOf, mark) : text
    return withoutIdentities(this.#withoutBeginning(clean))
  }

  /** A text may be cut in the middle of a secret, by its sender or by the gateway. */
  #withoutBeginning(text: string): string {
    if (text.length < shortest.beginning) return text
    for (const secret of this.#all) {
      const length = beginningAtEnd(text, secret)
      if (length >= shortest.beginning) return text.slice(0, -length) + mark
    }
    return text
  }
}

/** How often the credential of a channel has changed. */
function versionOf({ living }: Channel): number {
  return living ? (credentialOf(living.source)?.version ?? 0) : 0
}

/** The keys of some channels, for operators; of credentials that change always the present ones. */
export class Keys {
  readonly #channels: readonly Channel[]
  #secrets: Secrets | undefined
  #version = 0

  constructor(channels: Iterable<Channel>) {
    this.#channels = [...channels]
  }

  /** See {@link Secrets.without}. */
  without(text: string): string {
    const version = this.#channels.reduce((sum, channel) => sum + versionOf(channel), 0)
    if (!this.#secrets || version !== this.#version) {
      this.#secrets = new Secrets(this.#channels, 'keys')
      this.#version = version
    }
    return this.#secrets.without(text)
  }
}

/** The secrets of each channel, made when they are first needed. */
const known = new WeakMap<Channel, { secrets: Secrets; version: number }>()

/** The secrets of one channel, with the present ones of a credential that changes. */
export function secretsOf(channel: Channel): Secrets {
  const version = versionOf(channel)
  let entry = known.get(channel)
  if (entry?.version !== version) known.set(channel, (entry = { secrets: new Secrets([channel]), version }))
  return entry.secrets
}

/** All spellings of what the configuration says of the channel and only the upstream may know. */
function spellingsOf({ credential, living, headers, baseUrl }: Channel, of: 'all' | 'keys'): string[] {
  const found: string[] = []
  const add = (value: string, least: number): void => {
    if (value.length < least) return
    const json = JSON.stringify(value).slice(1, -1)
    found.push(value, json, json.replaceAll('/', '\\/'), encodeURIComponent(value))
  }
  const least = of === 'all' ? shortest.whole : shortest.part
  const changing = living ? (credentialOf(living.source)?.texts ?? []) : []
  for (const value of [credential, ...changing, ...Object.values(headers)]) {
    add(value, least)
    // For `Bearer …` or `name=…; other=…`, each part is a secret too, because it may be quoted alone.
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

/** The length of the longest proper beginning of the secret that the text ends with. Reads the end of the text once. */
function beginningAtEnd(text: string, { text: secret, borders }: Secret): number {
  let length = 0
  for (let at = Math.max(0, text.length - secret.length + 1); at < text.length; at++) {
    while (length > 0 && text[at] !== secret[length]) length = borders[length - 1]!
    if (text[at] === secret[length]) length++
  }
  return length
}
