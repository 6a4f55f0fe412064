// The members of a request by name, whichever form its body has.

/** The members of a JSON body, or the fields of a form. */
export interface Fields {
  has(key: string): boolean
  /**
   * How many bytes the value takes as it is written; 0 when absent. Ask this before reading a value of unbounded size.
   */
  size(key: string): number
  /** The value when it is text; undefined when absent or of another type. */
  string(key: string): string | undefined
  /** False when absent or null; undefined when it is neither true nor false. */
  flag(key: string): boolean | undefined
  /** The value when it is a number; `NaN` when it has more digits than any sensible number. */
  number(key: string): number | undefined
  /** The value parsed; undefined when absent. */
  json(key: string): unknown
  /**
   * Keys with other characters than small letters, digits, `_`, `-` and `.`: another reader may take them for other
   * keys.
   */
  readonly oddKeys: readonly string[]
}

/** The longest number that is read, in bytes, quotes included. */
const longestNumber = 24

/**
 * A number that a client may also write as a string of digits. Undefined when it is absent or null; `NaN` when it is
 * anything else.
 */
export function numberOrDigits(fields: Fields, key: string): number | undefined {
  if (!fields.has(key)) return undefined
  // A long list is not parsed.
  const given = fields.size(key) > longestNumber ? NaN : fields.json(key)
  if (given === null) return undefined
  return typeof given === 'number' ? given : typeof given === 'string' && given.trim() !== '' ? Number(given) : NaN
}
