// Random choices that are the same for the same seed, and random damage to data.

/** The random choices of one seed. */
export interface Chance {
  /** From 0 to below 1. */
  random(): number
  /** A whole number from 0 to below `count`. */
  below(count: number): number
  pick<T>(list: readonly T[]): T
  /** A copy of JSON data in which one value somewhere is replaced, removed or added. */
  damaged(value: unknown): unknown
}

/** Values that are unexpected in most places. */
const oddities: readonly unknown[] = [
  null,
  true,
  0,
  -1,
  1.5,
  1e308,
  2 ** 53,
  '',
  'x',
  [],
  {},
  [null],
  [[]],
  '__proto__',
  'a'.repeat(5000),
  { type: 'text' },
  [{}],
  '\ud83d',
  '\u0000'
]

export function chance(seed: number): Chance {
  const random = mulberry32(seed)
  const below = (count: number): number => Math.floor(random() * count)
  const pick = <T>(list: readonly T[]): T => list[below(list.length)]!
  const damaged = (value: unknown): unknown => {
    if (typeof value !== 'object' || value === null || random() < 0.15) return pick(oddities)
    if (Array.isArray(value)) {
      if (value.length === 0 || random() < 0.2) return random() < 0.5 ? [...(value as unknown[]), pick(oddities)] : []
      const place = below(value.length)
      return value.map((item: unknown, index) => (index === place ? damaged(item) : item))
    }
    const keys = Object.keys(value)
    if (keys.length === 0) return { [pick(['type', 'index', 'error'])]: pick(oddities) }
    const key = pick(keys)
    const { [key]: inner, ...rest } = value as Record<string, unknown>
    return random() < 0.2 ? rest : { ...rest, [key]: damaged(inner) }
  }
  return { random, below, pick, damaged }
}

/** A fast generator of pseudorandom numbers whose results are the same on every machine. */
function mulberry32(state: number): () => number {
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}
