// Finds what is new in a text that an upstream repeats as a whole.
import { digest } from '../canonical/digest.ts'
import { parseObject } from '../canonical/json.ts'
import { badAnswer } from '../canonical/untranslatable.ts'
import { asObject } from '../object.ts'

/** What is needed to recognize a text. */
interface Mark {
  length: number
  exact: string
  /** The digest of the text's comparable form; see {@link Told}. */
  same: string
}

/** A text as far as it was passed on; when it is complete, only what is needed to recognize it. */
export class Told {
  /** The text while it grows; empty once {@link forget} was called. */
  text = ''
  readonly #form: (text: string) => string
  #mark: Mark | undefined

  /** `form`: makes two texts equal that differ in nothing that matters. */
  constructor(form: (text: string) => string) {
    this.#form = form
  }

  /** Keeps only what is needed to recognize the text. */
  forget(): void {
    const { text } = this
    this.#mark ??= { length: text.length, exact: digest(text), same: digest(this.#form(text)) }
    this.text = ''
  }

  /**
   * What of the whole text was not passed on yet. An upstream may leave the whole out, so empty text has nothing new.
   * @throws Untranslatable when the whole contradicts what was passed on
   */
  rest(whole: string): string {
    if (whole === '') return ''
    const mark = this.#mark
    const length = mark?.length ?? this.text.length
    const before = whole.slice(0, length)
    if (mark ? digest(before) === mark.exact && before.length === length : before === this.text)
      return whole.slice(length)
    const same = this.#form(whole)
    if (mark ? digest(same) === mark.same : same === this.#form(this.text)) return ''
    throw badAnswer('The upstream contradicts what it said before of the same answer.')
  }
}

/** A text without the white space around it, which some upstreams drop when they repeat it. */
export function trimmed(text: string): string {
  return text.trim()
}

/** Arguments without white space and with sorted members. Text that is not JSON is returned as it is. */
export function sortedJson(text: string): string {
  const object = parseObject(text)
  return object ? JSON.stringify(object, sorted) : text
}

function sorted(_key: string, value: unknown): unknown {
  const object = asObject(value)
  if (!object) return value
  const keys = Object.keys(object).sort()
  return Object.fromEntries(keys.map((key) => [key, object[key]]))
}
