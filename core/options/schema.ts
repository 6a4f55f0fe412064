// Option schemas: one JSON Schema literal is the check, the TypeScript type, the editor's completion and the
// documentation.

interface Described {
  /** One sentence: what it does, the unit, and what the default means. */
  description: string
  /** Never shown: not in a problem, not in the redacted configuration. */
  secret?: true
  /** For the editor. */
  examples?: readonly unknown[]
}

/**
 * The config's own units, all written as text: `duration` (`30s` → milliseconds), `size` (`16MiB` → bytes), `usd`
 * (decimal dollars → nano-dollars), `date` (`2027-01-01` → Unix milliseconds), `decimal` (a price: stays text, so that
 * no digit is lost), `path` (of a file, relative to gateway.yaml → absolute). `size`, `usd` and `decimal` may be
 * written as numbers too.
 */
export type Unit = 'duration' | 'size' | 'usd' | 'date' | 'decimal' | 'path'

/** A JSON Schema (draft-07) as options use it, with units added to `format`. */
export type OptionSchema = Described &
  (
    | {
        type: 'string'
        format?: Unit
        /** Of a path: words that stand for something else than a file. */
        words?: readonly string[]
        enum?: readonly string[]
        default?: string
        minLength?: number
        pattern?: string
        /** What `pattern` asks for, after "must be". */
        patternErrorMessage?: string
        /** Bounds of a duration or size, in its own notation: `1ms`, `24d`. */
        atLeast?: string
        atMost?: string
      }
    | { type: 'integer' | 'number'; minimum?: number; maximum?: number; default?: number }
    | { type: 'boolean'; default?: boolean }
    | { type: 'array'; items: OptionSchema; default?: readonly unknown[]; minItems?: number }
    /**
     * Known keys, no others. With `or`, one of these words may stand instead: `admin: false`, `price: free`. With
     * `orList`, a list of such objects may.
     */
    | {
        type: 'object'
        properties: OptionSchemas
        required?: readonly string[]
        or?: readonly (string | false)[]
        orList?: true
        default?: unknown
      }
    /** Free names, one schema for all values. */
    | { type: 'object'; additionalProperties: OptionSchema; propertyNames?: NameSchema; default?: unknown }
    /** Anything: checked by other means. */
    | { type?: undefined }
  )

/** What the free names of an object look like. */
export interface NameSchema {
  pattern: string
  patternErrorMessage: string
}

/** Options by name. */
export type OptionSchemas = Readonly<Record<string, OptionSchema>>

/** The value of one schema after the check: defaults filled in, units converted. */
export type OptionValue<S> = S extends { format: 'duration' | 'size' | 'date' }
  ? number
  : S extends { format: 'usd' }
    ? bigint
    : S extends { enum: readonly (infer E)[] }
      ? E
      : S extends { type: 'string' }
        ? string
        : S extends { type: 'integer' | 'number' }
          ? number
          : S extends { type: 'boolean' }
            ? boolean
            : S extends { type: 'array'; items: infer I }
              ? readonly OptionValue<I>[]
              : S extends { type: 'object'; properties: infer P }
                ? OptionValues<P, RequiredOf<S>> | Several<S, P> | Alternative<S>
                : S extends { type: 'object'; additionalProperties: infer V }
                  ? { readonly [name: string]: OptionValue<V> }
                  : unknown

type RequiredOf<S> = S extends { required: readonly (infer R)[] } ? R : never
type Several<S, P> = S extends { orList: true } ? readonly OptionValues<P, RequiredOf<S>>[] : never
type Alternative<S> = S extends { or: readonly (infer E)[] } ? E : never
type Filled<O, R> = { [K in keyof O]: O[K] extends { default: unknown } ? K : K extends R ? K : never }[keyof O]

/** All values of a set of options; those without a default that are not among the required `R` may be undefined. */
export type OptionValues<O, R = never> = { readonly [K in Filled<O, R>]: OptionValue<O[K]> } & {
  readonly [K in Exclude<keyof O, Filled<O, R>>]?: OptionValue<O[K]> | undefined
}
