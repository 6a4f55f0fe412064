// The form of a request for a response.
import type { Fields } from '../../fields.ts'
import type { Conversation } from '../../words/composition.ts'
import type { Item } from './input.ts'

/** A request that passed the checks. */
export interface ResponseRequest extends Conversation {
  stream: boolean
  background: boolean
  store: boolean
  /** Whether the answer has a summary of its reasoning, and whether it has the encrypted reasoning. */
  summarized: boolean
  sealed: boolean
  /** The request itself: the answer repeats some of its members. */
  body: Fields
  /** The input items of this request. */
  items: readonly Item[]
  /** The items of the conversation so far, and those of this request. */
  context: readonly Item[]
}
