// Option schemas: one JSON Schema literal serves as check, TypeScript type, editor completion and documentation.

interface Described {
  /** One sentence: what the option does, its unit, and what the default means. */
  description: string
  /** The value is never shown, neither in problems nor in the redacted configuration. */
  secret?: true
  /** Examples for the editor. */
  examples?: readonly unknown[]
}

/**
 * The units of the configuration, all written as text: `duration` (`30s` → milliseconds), `size` (`16MiB` → bytes),
 * `usd` (decimal dollars → nano-dollars), `date` (`2027-01-01` → Unix milliseconds), `decimal` (a price, which stays
 * text so that no digit is lost), `path` (of a file, relative to gateway.yaml → absolute). `size`, `usd` and `decimal`
 * may also be written as numbers.
 */
export type Unit = 'duration' | 'size' | 'usd' | 'date' | 'decimal' | 'path'

/** A JSON Schema (draft-07) for an option, with the units as additional values of `format`. */
export type OptionSchema = Described &
  (
    | {
        type: 'string'
        format?: Unit
        /** For a path: words that mean something other than a file. */
        words?: readonly string[]
        enum?: readonly string[]
        default?: string
        minLength?: number
        pattern?: string
        /** Describes what `pattern` matches, to follow "must be". */
        patternErrorMessage?: string
        /** Bounds of a duration or size, written as the value is: `1ms`, `24d`. */
        atLeast?: string
        atMost?: string
      }
    /** With `or`, one of these words may be given instead: `workers: auto`. */
    | {
        type: 'integer' | 'number'
        minimum?: number
        maximum?: number
        or?: readonly string[]
        default?: number
      }
    | { type: 'boolean'; default?: boolean }
    | { type: 'array'; items: OptionSchema; default?: readonly unknown[]; minItems?: number }
    /**
     * An object with known keys only. With `or`, one of these words may be given instead: `admin: false`, `price:
     * free`. With `orList`, a list of such objects may be given; an empty one only without `or`. With `orText`, a text
     * may be given, which is a secret; neither of the others is possible then.
     */
    | {
        type: 'object'
        properties: OptionSchemas
        required?: readonly string[]
        or?: readonly (string | false)[]
        orList?: true
        orText?: true
        default?: unknown
      }
    /** An object with any names and one schema for all values. */
    | { type: 'object'; additionalProperties: OptionSchema; propertyNames?: NameSchema; default?: unknown }
    /** Any value, which other code checks. */
    | { type?: undefined }
  )

/** The form of the free names of an object. */
export interface NameSchema {
  pattern: string
  patternErrorMessage: string
}

/** Options by name. */
export type OptionSchemas = Readonly<Record<string, OptionSchema>>

/** The type of a value after the check, with defaults filled in and units converted. */
export type OptionValue<S> = S extends { format: 'duration' | 'size' | 'date' }
  ? number
  : S extends { format: 'usd' }
    ? bigint
    : S extends { enum: readonly (infer E)[] }
      ? E
      : S extends { type: 'string' }
        ? string
        : S extends { type: 'integer' | 'number' }
          ? number | WordOf<S>
          : S extends { type: 'boolean' }
            ? boolean
            : S extends { type: 'array'; items: infer I }
              ? readonly OptionValue<I>[]
              : S extends { type: 'object'; properties: infer P }
                ? OptionValues<P, RequiredOf<S>> | Several<S, P> | Alternative<S>
                : S extends { type: 'object'; additionalProperties: infer V }
                  ? { readonly [name: string]: OptionValue<V> }
                  : unknown

type WordOf<S> = S extends { or: readonly (infer E)[] } ? E : never
type RequiredOf<S> = S extends { required: readonly (infer R)[] } ? R : never
type Several<S, P> = S extends { orList: true } ? readonly OptionValues<P, RequiredOf<S>>[] : never
type Alternative<S> = S extends { or: readonly (infer E)[] } ? E : S extends { orText: true } ? string : never
type Filled<O, R> = { [K in keyof O]: O[K] extends { default: unknown } ? K : K extends R ? K : never }[keyof O]

/**
 * The values of a set of options. An option may be undefined when it has no default and is not among the required `R`.
 */
export type OptionValues<O, R = never> = { readonly [K in Filled<O, R>]: OptionValue<O[K]> } & {
  readonly [K in Exclude<keyof O, Filled<O, R>>]?: OptionValue<O[K]> | undefined
}
