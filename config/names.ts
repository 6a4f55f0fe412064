// The patterns of names in gateway.yaml.
import type { NameSchema } from '../core/options/schema.ts'

/**
 * The names of channels, tenants, projects, members and keys. They have no slash or colon, because those separate names
 * in ids.
 */
export const names = {
  pattern: '^[\\p{L}\\p{N}][\\p{L}\\p{N}._@+-]{0,127}$',
  patternErrorMessage: 'letters, digits and . _ @ + -, beginning with a letter or digit, at most 128'
} as const satisfies NameSchema

/** The same, and with a star at its end a pattern of names. */
export const modelKeys = {
  pattern: '^[\\p{L}\\p{N}@~][^\\s\\p{Cc}*?#]{0,255}\\*?$',
  patternErrorMessage:
    'a model name: no spaces, no ? #, a * only at its end, beginning with a letter or digit, at most 256'
} as const satisfies NameSchema

/** The names of public models, which may look like those of vendors: `meta-llama/Llama-3:free`. */
export const modelNames = {
  pattern: '^[\\p{L}\\p{N}@~][^\\s\\p{Cc}*?#]{0,255}$',
  patternErrorMessage: 'a model name: no spaces, no * ? #, beginning with a letter or digit, at most 256'
} as const satisfies NameSchema
