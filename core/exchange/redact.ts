// Takes out of what an upstream says whatever clients must not see: secrets of its channel, its address, anybody's
// keys.
import type { Channel } from '../catalogue/catalogue.ts'

/** Longest text that is looked through, and longest text and name that are passed on, in characters. */
const readLength = 64 * 1024
const longestText = 1000
const longestName = 128
/** What is shorter could be any word: as a whole secret, as a part of one, and as the beginning of one that is cut. */
const shortest = { whole: 4, part: 8, beginning: 6 }

const mark = '[redacted]'
/** Keys as vendors make them, also with their middle in asterisks; `org-` says whose account it is. */
const keys =
  /\bsk-[-\w*]{8,}|\b(?:key|AIza|AKIA)(?=[-_*A-Za-z]*\d)[-\w*]{12,}|\borg-[A-Za-z0-9]{12,}|\bBearer\s+[-\w.~+/*]{8,}=*/g
const tags = /<[^>]{1,200}>/g

interface Secrets {
  all: readonly string[]
  anyOf: RegExp | undefined
}

/** Of each channel, from its first error on. */
const known = new WeakMap<Channel, Secrets>()

/** A text for people, cleaned and then cut. */
export function cleanText(text: string, channel: Channel): string {
  return redacted(text.slice(0, readLength), channel).replace(tags, ' ').slice(0, longestText).trim()
}

/**
 * A name for programs (a code, a type, a field), as it came; undefined when there is anything in it that has to be
 * taken out.
 */
export function cleanName(name: string | undefined, channel: Channel): string | undefined {
  if (name === undefined || name.length > longestName) return undefined
  return redacted(name, channel) === name ? name : undefined
}

/** Whether there is nothing in it that has to be taken out. */
export function isClean(text: string, channel: Channel): boolean {
  return redacted(text, channel) === text
}

function redacted(text: string, channel: Channel): string {
  let secrets = known.get(channel)
  if (!secrets) known.set(channel, (secrets = secretsOf(channel)))
  const { all, anyOf } = secrets
  const clean = anyOf ? text.replace(anyOf, mark) : text
  return withoutBeginning(clean, all).replace(keys, mark)
}

/** An upstream may cut what it says, as we do, in the midst of a secret. */
function withoutBeginning(text: string, secrets: readonly string[]): string {
  for (const secret of secrets) {
    for (let length = secret.length - 1; length >= shortest.beginning; length--) {
      if (text.endsWith(secret.slice(0, length))) return text.slice(0, -length) + mark
    }
  }
  return text
}

/** Everything that the file says of the channel and that only the upstream was to know, in all its spellings. */
function secretsOf({ credential, headers, baseUrl }: Channel): Secrets {
  const found = new Set<string>()
  const add = (value: string, least: number): void => {
    if (value.length < least) return
    const json = JSON.stringify(value).slice(1, -1)
    for (const spelled of [value, json, json.replaceAll('/', '\\/'), encodeURIComponent(value)]) found.add(spelled)
  }
  for (const value of [credential, ...Object.values(headers)]) {
    add(value, shortest.whole)
    // `Bearer …`, `name=…; other=…`: quoted without what stands around it.
    for (const part of value.split(/[\s,;=]+/)) add(part, shortest.part)
  }
  for (const value of [baseUrl.host, baseUrl.hostname, ...baseUrl.searchParams.values()]) add(value, shortest.whole)
  for (const part of baseUrl.pathname.split('/')) add(part, shortest.part)
  // The longest first: one may begin with another.
  const all = [...found].sort((a, b) => b.length - a.length)
  const escaped = all.map((secret) => secret.replace(/[^\w ]/g, (char) => `\\${char}`))
  return { all, anyOf: all.length > 0 ? new RegExp(escaped.join('|'), 'gi') : undefined }
}
