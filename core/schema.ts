// Option schemas: one JSON Schema literal is the check, the TypeScript type, the editor's completion and the documentation.

interface Described {
  /** One sentence: what it does, the unit, and what the default means. */
  description: string
}

/**
 * A JSON Schema (draft-07) as options use it. `format` adds the config's own units: `duration` (`30s` → milliseconds),
 * `size` (`16MiB` → bytes), `usd` (decimal dollars → nano-dollars), `date` (→ Unix milliseconds).
 */
export type OptionSchema = Described & (
  | { type: 'string'; format?: 'duration' | 'size' | 'usd' | 'date'; enum?: readonly string[]; default?: string; pattern?: string; minLength?: number }
  | { type: 'integer' | 'number'; minimum?: number; maximum?: number; default?: number }
  | { type: 'boolean'; default?: boolean }
  | { type: 'array'; items: OptionSchema; default?: readonly unknown[]; minItems?: number }
  | { type: 'object'; properties: OptionSchemas; required?: readonly string[]; default?: unknown }
)

/** Options by name. */
export type OptionSchemas = Readonly<Record<string, OptionSchema>>

/** The value of one schema after the check: defaults filled in, units converted. */
export type OptionValue<S> =
  S extends { format: 'duration' | 'size' | 'date' } ? number
  : S extends { format: 'usd' } ? bigint
  : S extends { enum: readonly (infer E)[] } ? E
  : S extends { type: 'string' } ? string
  : S extends { type: 'integer' | 'number' } ? number
  : S extends { type: 'boolean' } ? boolean
  : S extends { type: 'array'; items: infer I } ? readonly OptionValue<I>[]
  : S extends { type: 'object'; properties: infer P } ? OptionValues<P>
  : never

type Defaulted<O> = { [K in keyof O]: O[K] extends { default: unknown } ? K : never }[keyof O]

/** All values of a set of options; those without a default may be undefined (a `required` one is checked at load). */
export type OptionValues<O> =
  { readonly [K in Defaulted<O>]: OptionValue<O[K]> } & { readonly [K in Exclude<keyof O, Defaulted<O>>]?: OptionValue<O[K]> | undefined }
