// How much text there is in a piece of an answer, for estimates.

/** Members that say what something is, and not what the model said. */
const structure: ReadonlySet<string> = new Set([
  'role',
  'type',
  'id',
  'call_id',
  'item_id',
  'status',
  'signature',
  'thoughtSignature',
  'encrypted_content',
  'data',
  'url',
  'b64_json'
])

/**
 * What a tool answers, or in Responses a picture that was made: so many characters without a sign of text are a
 * picture.
 */
const resultKey = 'result'
const resultLength = 1024
const text = /[ "\u0080-\uffff]/

/** In UTF-8. Every string counts, whatever the vendor calls its member; keys and structure do not. */
export function textBytes(value: unknown): number {
  if (typeof value === 'string') return Buffer.byteLength(value)
  if (typeof value !== 'object' || value === null) return 0
  let bytes = 0
  for (const [key, inner] of Object.entries(value))
    if (!structure.has(key) && !(key === resultKey && isPicture(inner))) bytes += textBytes(inner)
  return bytes
}

function isPicture(value: unknown): boolean {
  return typeof value === 'string' && value.length >= resultLength && !text.test(value.slice(0, resultLength))
}
