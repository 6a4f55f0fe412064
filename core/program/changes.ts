// Compares two configurations, and says in words what differs.
import { isDeepStrictEqual } from 'node:util'
import { inTurns } from '../bodies/turns.ts'
import type { Config } from '../catalogue/settings.ts'
import { below, isMap } from '../options/schema-check.ts'
import { fixedChanges } from './fixed-settings.ts'

/** One difference. Secrets are `[redacted]` in it, and variables are as they are written. */
export interface Change {
  readonly kind: 'added' | 'removed' | 'changed'
  /** The section of the file. */
  readonly section: string
  /** The thing in the section, such as a channel's name; null in sections that are one thing. */
  readonly name: string | null
  /** The setting: `price.input`; null for the whole thing. */
  readonly member: string | null
  readonly before?: unknown
  readonly after?: unknown
  /** Whether it takes effect with a restart only. */
  readonly restart: boolean
  /** `channel east: weight changes from 1 to 2`. */
  readonly text: string
}

/** What the entries of a section are called. */
const nouns: Readonly<Record<string, (name: string) => string>> = {
  channels: (name) => `channel ${name}`,
  models: (name) => `model ${name}`,
  tenants: (name) => `tenant ${name}`,
  keys: (name) => `key ${name}`,
  plugins: (name) => `plugin ${name}`,
  chain: (name) => `plugin ${name} of the chain`
}

/** A value of a configuration as it is shown, with its place. */
interface Stated {
  readonly value: unknown
  readonly pointer: string
  readonly config: Config
}

/** A comparison that can stop wherever it yields, and goes on in a later turn of the event loop. */
type Comparison<T> = Generator<undefined, T, undefined>

/**
 * Finds what `after` changes, in the order of `before`, what is new last. It works in slices, so that files with very
 * many entries do not hold up requests.
 */
export async function changesOf(before: Config, after: Config): Promise<Change[]> {
  const comparison = compare(before, after)
  return inTurns({
    advance(until) {
      for (;;) {
        const { done, value } = comparison.next()
        if (done) return value
        if (performance.now() >= until) return undefined
      }
    }
  })
}

function* compare(before: Config, after: Config): Comparison<Change[]> {
  const fixed = fixedChanges(before.settings, after.settings)
  const sections = new Set([...Object.keys(before.redacted), ...Object.keys(after.redacted)])
  const found: Change[] = []
  for (const section of sections) {
    const [old, next] = [sectionOf(before, section, after), sectionOf(after, section, before)]
    yield* differences(old, next, [section], fixed, found)
  }
  return [...found, ...reordered(before, after), ...renewed(before, after)]
}

/** A section; an absent one is empty, of the kind that the other configuration has: undefined for a single value. */
function sectionOf(config: Config, section: string, other: Config): Stated | undefined {
  const there = other.redacted[section]
  const value = config.redacted[section] ?? (Array.isArray(there) ? [] : isMap(there) ? {} : undefined)
  return value === undefined ? undefined : { value, pointer: below('', section), config }
}

/** Adds the differences of two values to `found`. */
function* differences(
  before: Stated | undefined,
  after: Stated | undefined,
  path: readonly string[],
  fixed: readonly string[],
  found: Change[]
): Comparison<void> {
  yield
  if (before && after) {
    // Most of a large file is what it was, and is passed over without a map of what is in it.
    if (yield* isEqual(before, after)) return
    const [old, next] = [partsOf(before, path), partsOf(after, path)]
    if (old && next) {
      for (const [name, one] of old) yield* differences(one, next.get(name), [...path, name], fixed, found)
      for (const [name, one] of next)
        if (!old.has(name)) yield* differences(undefined, one, [...path, name], fixed, found)
      return
    }
  }
  found.push(changeOf(before, after, path, fixed))
}

/** The values in a map, or in a list whose entries have names; undefined for anything else. */
function partsOf(
  { value, pointer, config }: Stated,
  [section, ...rest]: readonly string[]
): Map<string, Stated> | undefined {
  if (isMap(value)) return itemsOf({ value, pointer, config })
  if (!Array.isArray(value) || rest.length > 0 || (section !== 'keys' && section !== 'chain')) return undefined
  const entries = value.map((entry: unknown, index): [string, Stated] => {
    if (section === 'keys')
      return [
        nameOf(isMap(entry) ? entry['name'] : undefined, index),
        { value: entry, pointer: below(pointer, index), config }
      ]
    const [name, options] = isMap(entry) ? Object.entries(entry)[0]! : [nameOf(entry, index), {}]
    return [name, { value: options ?? {}, pointer: below(below(pointer, index), name), config }]
  })
  return new Map(entries)
}

function nameOf(name: unknown, index: number): string {
  return typeof name === 'string' ? name : String(index)
}

/** Whether both mean the same: what is shown, and what is hidden behind it. */
function isEqual(before: Stated, after: Stated): Comparison<boolean> {
  return isSame(before.value, before.pointer, before.config.hidden, after.value, after.pointer, after.config.hidden)
}

type Hidden = Config['hidden']

/** The same of values at their pointers. Only texts have something hidden behind them. */
function* isSame(
  old: unknown,
  at: string,
  hidden: Hidden,
  next: unknown,
  nextAt: string,
  nextHidden: Hidden
): Comparison<boolean> {
  if (typeof old === 'string') return old === next && hidden.get(at) === nextHidden.get(nextAt)
  if (typeof old !== 'object' || old === null || typeof next !== 'object' || next === null) return old === next
  yield
  if (Array.isArray(old) !== Array.isArray(next)) return false
  const [olds, nexts] = [old as Record<string, unknown>, next as Record<string, unknown>]
  const names = Object.keys(olds)
  if (names.length !== Object.keys(nexts).length) return false
  for (const name of names) {
    const [inner, other] = [olds[name], nexts[name]]
    const isText = typeof inner === 'string'
    if (isText || typeof inner !== 'object') {
      if (inner !== other) return false
      if (!isText) continue
    }
    const place = below(at, name)
    const nextPlace = at === nextAt ? place : below(nextAt, name)
    // Texts and numbers are compared here, as a generator for each would take longer than the comparison.
    if (
      isText
        ? hidden.get(place) !== nextHidden.get(nextPlace)
        : !(yield* isSame(inner, place, hidden, other, nextPlace, nextHidden))
    )
      return false
  }
  return true
}

/** The values in a map or a list; undefined for anything else. */
function itemsOf({ value, pointer, config }: Stated): Map<string, Stated> | undefined {
  if (!isMap(value) && !Array.isArray(value)) return undefined
  const items = Object.entries(value as object)
  return new Map(items.map(([name, inner]) => [name, { value: inner, pointer: below(pointer, name), config }]))
}

function changeOf(
  before: Stated | undefined,
  after: Stated | undefined,
  path: readonly string[],
  fixed: readonly string[]
): Change {
  const [section = '', ...rest] = path
  const noun = rest.length > 0 ? nouns[section] : undefined
  const name = noun ? rest[0]! : null
  const member = noun ? rest.slice(1).join('.') : rest.join('.')
  const whole = path.join('.')
  const restart = fixed.some(
    (setting) => setting === whole || whole.startsWith(`${setting}.`) || setting.startsWith(`${whole}.`)
  )
  const subject = noun ? `${noun(name!)}${member === '' ? '' : `: ${member}`}` : whole
  const said = `${subject} ${verbOf(before, after, member !== '' || !noun)}`
  return {
    kind: !before ? 'added' : !after ? 'removed' : 'changed',
    section,
    name,
    member: member === '' ? null : member,
    ...(before && { before: before.value }),
    ...(after && { after: after.value }),
    restart,
    text: restart ? `${said}; this needs a restart` : said
  }
}

function verbOf(before: Stated | undefined, after: Stated | undefined, withValue: boolean): string {
  if (!after) return withValue ? `is removed (it was ${show(before!.value)})` : 'is removed'
  if (!before) return withValue ? `is added: ${show(after.value)}` : 'is added'
  return isDeepStrictEqual(before.value, after.value)
    ? 'changes'
    : `changes from ${show(before.value)} to ${show(after.value)}`
}

/** The most characters of one value in words. */
const longest = 120

function show(value: unknown): string {
  const text = JSON.stringify(value)
  return text.length <= longest ? text : `${text.slice(0, longest)}…`
}

/** The change of the order of the chain, as far as its plugins stay. */
function reordered(before: Config, after: Config): Change[] {
  const [old, next] = [before, after].map(({ chain }) => chain.map(({ plugin }) => plugin))
  const kept = (names: readonly string[], others: readonly string[]): string[] =>
    names.filter((name) => others.includes(name))
  if (isDeepStrictEqual(kept(old!, next!), kept(next!, old!))) return []
  const text = `the order of the chain changes to ${next!.join(', ')}`
  return [
    { kind: 'changed', section: 'chain', name: null, member: null, before: old, after: next, restart: false, text }
  ]
}

/** The files that both name, with other content. */
function renewed(before: Config, after: Config): Change[] {
  return [...after.named].flatMap(([path, hash]): Change[] => {
    const old = before.named.get(path)
    if (old === undefined || old === hash) return []
    const text = `the file ${path} has other content`
    return [{ kind: 'changed', section: 'files', name: path, member: null, restart: false, text }]
  })
}

/** The most changes that are listed in words. The rest is only counted. */
const mostListed = 50

/** Renders changes in words, a text each. */
export function inWords(changes: readonly Change[]): string[] {
  const texts = changes.slice(0, mostListed).map(({ text }) => text)
  const rest = changes.length - texts.length
  return rest === 0 ? texts : [...texts, `and ${rest} more`]
}
