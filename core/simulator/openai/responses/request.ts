// What is asked for when a response is.
import type { Fields } from '../../fields.ts'
import type { Conversation } from '../../words/composition.ts'
import type { Item } from './input.ts'

/** A request that can be answered. */
export interface ResponseRequest extends Conversation {
  stream: boolean
  background: boolean
  store: boolean
  /** Reasoning has a summary, and its content sealed. */
  summarized: boolean
  sealed: boolean
  /** As it came, for what the answer repeats. */
  body: Fields
  /** Of this request. */
  items: readonly Item[]
  /** Of the conversation it goes on with, and of this request. */
  context: readonly Item[]
}
