// Vectors in an upstream's answer, with the digits that it wrote.
import { badAnswer } from '../canonical/untranslatable.ts'
import { asObject } from '../object.ts'
import type { JsonObject } from '../object.ts'
import { numbersOf } from '../openai/embedding-format.ts'

/** The vectors of an answer as JSON text, in the order of the texts, and the tokens that it reports. */
export interface Vectors {
  readonly vectors: readonly string[]
  readonly tokens: number | undefined
}

/** In members that only vectors have; those of OpenAI's protocol may be in base64. */
const named = /"(?:(values|embedding)"\s*:\s*(\[[-+.\deE,\s]*\])|(embedding)"\s*:\s*("[A-Za-z0-9+/=]*"))/g
/** Lists of numbers, wherever they are. */
const bare = /\[\s*-?\d[-+.\deE,\s]*\]/g

/** An answer without its vectors: each is replaced by its index, so that what is parsed is small. */
export class Stripped {
  readonly rest: JsonObject
  readonly #vectors: string[] = []

  /**
   * `inLists`: vectors stand in lists and not in members of their own.
   *
   * @throws Untranslatable for what is no JSON
   */
  constructor(text: string, inLists = false) {
    const put = (vector: string): number => this.#vectors.push(vector) - 1
    const short = inLists
      ? text.replace(bare, (vector) => String(put(vector)))
      : text.replace(
          named,
          (_all, name?: string, list?: string, packed?: string, bytes?: string) =>
            `"${name ?? packed}":${put((list ?? bytes)!)}`
        )
    try {
      this.rest = asObject(JSON.parse(short)) ?? {}
    } catch {
      throw badAnswer('The upstream sent an answer that is no JSON.')
    }
  }

  /**
   * The vector of this index. Some upstreams send base64 without being asked.
   *
   * @throws Untranslatable when there is none
   */
  at(index: unknown): string {
    const vector = typeof index === 'number' ? this.#vectors[index] : undefined
    if (vector === undefined) throw badAnswer('The upstream sent a vector that cannot be read.')
    return vector.startsWith('"') ? JSON.stringify(numbersOf(vector.slice(1, -1))) : vector
  }
}

/** A count of tokens; undefined for what is none. */
export function countIn(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined
}

/** The sum of counts; undefined where one is missing, as what is missing is not zero. */
export function sum(counts: readonly (number | undefined)[]): number | undefined {
  let total = 0
  for (const count of counts) {
    if (count === undefined) return undefined
    total += count
  }
  return counts.length === 0 ? undefined : total
}
