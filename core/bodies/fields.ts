// What a request says of itself, by name, whatever form its body has.

/** The members of a JSON body, or the fields of a form. */
export interface Fields {
  has(key: string): boolean
  /** The value when it is text; undefined when absent or of another type. */
  string(key: string): string | undefined
  /** True only for the literal `true`. */
  flag(key: string): boolean
  /** The value when it is a number. */
  number(key: string): number | undefined
  /** The value parsed; undefined when absent. */
  json(key: string): unknown
}
