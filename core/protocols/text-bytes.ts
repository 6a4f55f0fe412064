// Measures how much text a piece of an answer holds, for estimates.

/** Members that describe something and are not what the model said. */
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
 * The member with a tool's result, or in Responses with a picture: a value that begins with so many characters without
 * a sign of text is a picture.
 */
const resultKey = 'result'
const resultLength = 1024
const text = /[ "\u0080-\uffff]/

/**
 * The bytes of text in a value, in UTF-8. All strings count, whatever their member is called, except those of
 * `structure`.
 */
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
