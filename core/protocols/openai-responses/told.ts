// What was told of a text that the upstream says again as a whole.
import { digest } from '../canonical/digest.ts'
import { parseObject } from '../canonical/json.ts'
import { badAnswer } from '../canonical/untranslatable.ts'
import { asObject } from '../object.ts'

/** What it takes to know a text again. */
interface Mark {
  length: number
  exact: string
  /** Of its {@link Told} form. */
  same: string
}

/** A text as far as it was told; once it is over, what it takes to know it again. */
export class Told {
  /** While it grows; empty once it is {@link forget forgotten}. */
  text = ''
  readonly #form: (text: string) => string
  #mark: Mark | undefined

  /** `form`: what is the same in two texts that say the same. */
  constructor(form: (text: string) => string) {
    this.#form = form
  }

  /** Remembers no more than is needed to know it again. */
  forget(): void {
    const { text } = this
    this.#mark ??= { length: text.length, exact: digest(text), same: digest(this.#form(text)) }
    this.text = ''
  }

  /** What of a whole was not told. An upstream that leaves the whole out says nothing. @throws Untranslatable */
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

/** A text without the white space around it, which some upstreams leave out later. */
export function trimmed(text: string): string {
  return text.trim()
}

/** Arguments without their white space, members in one order; what is no JSON as it is. */
export function sortedJson(text: string): string {
  const object = parseObject(text)
  return object ? JSON.stringify(object, sorted) : text
}

function sorted(_key: string, value: unknown): unknown {
  const object = asObject(value)
  return object ? Object.fromEntries(Object.entries(object).sort(([a], [b]) => (a < b ? -1 : 1))) : value
}
