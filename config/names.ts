// What names in gateway.yaml look like.
import type { NameSchema } from '../core/options/schema.ts'

/** Channels, tenants, projects, members and keys: no slash or colon, which part the ids made of them. */
export const names = {
  pattern: '^[\\p{L}\\p{N}][\\p{L}\\p{N}._@+-]{0,127}$',
  patternErrorMessage: 'letters, digits and . _ @ + -, beginning with a letter or digit, at most 128'
} as const satisfies NameSchema

/** Public models: as vendors name them, `meta-llama/Llama-3:free`. */
export const modelNames = {
  pattern: '^[\\p{L}\\p{N}@~][^\\s\\p{Cc}*?#]{0,255}$',
  patternErrorMessage: 'a model name: no spaces, no * ? #, beginning with a letter or digit, at most 256'
} as const satisfies NameSchema
