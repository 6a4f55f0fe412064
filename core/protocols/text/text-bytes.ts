// Measures how much text a piece of an answer holds, for estimates.

/** Members that describe something and are not what the model said. */
const structure: ReadonlySet<string> = new Set([
  'role',
  'type',
  'id',
  'call_id',
  'item_id',
  'toolUseId',
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
/**
 * The members with the arguments of a call. Protocols that do not write them as a string have them as an object, and
 * Responses the calls of a computer or a shell.
 */
const argumentKeys: ReadonlySet<string> = new Set(['args', 'arguments', 'input', 'action', 'actions'])
const text = /[ "\u0080-\uffff]/

/**
 * The bytes of text in a value, in UTF-8. All strings count, whatever their member is called, except those of
 * `structure`. Arguments of calls count as they are written, as the model has written all of them.
 */
export function textBytes(value: unknown): number {
  if (typeof value === 'string') return Buffer.byteLength(value)
  if (typeof value !== 'object' || value === null) return 0
  let bytes = 0
  for (const [key, inner] of Object.entries(value)) {
    if (structure.has(key) || (key === resultKey && isPicture(inner))) continue
    bytes += argumentKeys.has(key) && typeof inner !== 'string' ? argumentBytes(inner) : textBytes(inner)
  }
  return bytes
}

/** A number says how many bytes were left out of a large event in its place. */
function argumentBytes(value: unknown): number {
  if (typeof value === 'number') return value
  if (typeof value !== 'object' || value === null || Object.keys(value).length === 0) return 0
  return Buffer.byteLength(JSON.stringify(value))
}

function isPicture(value: unknown): boolean {
  return typeof value === 'string' && value.length >= resultLength && !text.test(value.slice(0, resultLength))
}
