// What clients are told in the place of what an upstream says of the operator's account, or of its models.
import type { ErrorCode } from '../../errors.ts'
import { readError } from '../../protocols/told/errors.ts'
import { asObject } from '../../protocols/object.ts'
import { blameOf } from '../../protocols/told/signs.ts'
import type { Blame } from '../../protocols/told/signs.ts'

/** An error of ours. */
interface Told {
  readonly code: ErrorCode
  readonly message: string
}

const refused: Told = {
  code: 'upstream_auth_failed',
  message: 'The upstream refused the credentials of this gateway.'
}

/** Clients can mend nothing of either, and what was said of them is for the log. */
export const toldOf: Readonly<Record<Exclude<Blame, 'request'>, Told>> = {
  account: refused,
  unclear: refused,
  model: { code: 'upstream_model_missing', message: 'The upstream does not serve this model.' }
}

/**
 * The same error in our words when it is about the account or a model; undefined for any other. `error`: what stands
 * inside of an answer, a text or an object. That keeps its members: those that are one word, such as the id of the
 * event that a client sent, with what they say.
 */
export function inOurWords(error: string): string | undefined
export function inOurWords(error: object): object | undefined
export function inOurWords(error: string | object): string | object | undefined {
  const fields = asObject(error)
  // What only has an error further inside is none itself.
  if (fields && typeof fields['message'] !== 'string' && typeof fields['code'] !== 'string') return undefined
  const blame = blameOf(0, readError({ error }), '', true)
  if (blame === undefined || blame === 'request') return undefined
  const { code, message } = toldOf[blame]
  if (!fields) return message
  const words = Object.entries(fields).map(([name, value]) => [name, isWord(value) ? value : null])
  return { ...Object.fromEntries(words), ...('type' in fields && { type: 'upstream_error' }), code, message }
}

function isWord(value: unknown): boolean {
  return typeof value === 'string' && /^\S{1,128}$/.test(value)
}
