// What a request says of itself, by name, whatever form its body has.

/** The members of a JSON body, or the fields of a form. */
export interface Fields {
  has(key: string): boolean
  /**
   * How many bytes the value takes as it is written; 0 when absent. Looked at before anything is made of a value whose
   * size nobody has bounded.
   */
  size(key: string): number
  /** The value when it is text; undefined when absent or of another type. */
  string(key: string): string | undefined
  /** False when absent or null; undefined when it is anything else than true or false. */
  flag(key: string): boolean | undefined
  /** The value when it is a number; not a number (`NaN`) when it has more digits than anybody means. */
  number(key: string): number | undefined
  /** The value parsed; undefined when absent. */
  json(key: string): unknown
  /**
   * Keys with other characters than small letters, digits, `_`, `-` and `.`: for whoever wants to know what else a key
   * could be taken for.
   */
  readonly oddKeys: readonly string[]
}

/** Bytes of a number that somebody means, or of its digits in quotes. */
const longestNumber = 24

/**
 * What a client may write as a number or as its digits: undefined when it is absent or null, not a number (`NaN`) when
 * it is anything else.
 */
export function numberOrDigits(fields: Fields, key: string): number | undefined {
  if (!fields.has(key)) return undefined
  // Nothing is made of a list, however long it is.
  const given = fields.size(key) > longestNumber ? NaN : fields.json(key)
  if (given === null) return undefined
  return typeof given === 'number' ? given : typeof given === 'string' && given.trim() !== '' ? Number(given) : NaN
}
