// Interprets an upstream's finish reason, and adjusts it to the calls in the answer.
import type { Finish } from './answer.ts'
import type { FinishFate, FinishWords } from './finish-words.ts'
import { badAnswer } from './untranslatable.ts'

/** The longest word that is shown to a client, in characters. */
const longestWord = 64

/** Reads the finish reasons of a protocol, ignoring case. */
export class FinishReader {
  readonly #fates = new Map<string, FinishFate>()

  constructor(vendors: readonly FinishWords[]) {
    for (const { words } of vendors)
      for (const [word, fate] of Object.entries(words)) this.#fates.set(lower(word), fate)
  }

  /**
   * What a word means. An unknown one becomes `other`. `said`: the upstream's explanation, or empty.
   * @throws Untranslatable when the word means that the upstream gave up
   */
  read(word: string, said = ''): Finish {
    const fate = this.#fates.get(lower(word))
    const own = word.slice(0, longestWord).replace(/[^\w.-]/g, '_') || 'unknown'
    if (fate === 'failed') throw badAnswer(said || `The upstream gave its answer up (${own}).`)
    if (fate === undefined) return { reason: 'other', word: own, unknown: true }
    return fate === 'other' ? { reason: fate, word: own } : { reason: fate }
  }
}

function lower(word: string): string {
  return word.toLowerCase()
}

/** Whether the answer ended before the model was done, so that its last part may be incomplete. */
export function isCut({ reason }: Finish): boolean {
  return reason === 'length' || reason === 'content_filter' || reason === 'other'
}

/** Makes the reason fit the calls, as several upstreams say `stop` with calls. A cut or refused answer stays that. */
export function finishOf(finish: Finish, hasCalls: boolean): Finish {
  if (hasCalls) return finish.reason === 'stop' || finish.reason === 'sequence' ? { reason: 'tool_calls' } : finish
  return finish.reason === 'tool_calls' ? { reason: 'stop' } : finish
}
