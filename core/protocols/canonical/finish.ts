// Why an answer ended: what is made of an upstream's word for it, and what follows for calls.
import type { Finish } from './answer.ts'
import type { FinishFate, FinishWords } from './finish-words.ts'
import { badAnswer } from './untranslatable.ts'

/** Characters of a word that are repeated. */
const longestWord = 64

/** Reads the words of a protocol, in whichever letters they are written. */
export class FinishReader {
  readonly #fates = new Map<string, FinishFate>()

  constructor(vendors: readonly FinishWords[]) {
    for (const { words } of vendors)
      for (const [word, fate] of Object.entries(words)) this.#fates.set(lower(word), fate)
  }

  /**
   * What a word means; one that nobody knows is a reason of its own. `said`: the upstream's words on it, empty when
   * there are none.
   * @throws Untranslatable when the upstream gave the answer up
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

/** Whether it ended before the model was done: the last that it said may not be whole. */
export function isCut({ reason }: Finish): boolean {
  return reason === 'length' || reason === 'content_filter' || reason === 'other'
}

/** Calls win over what the upstream says, as several say `stop` with calls; a cut or a refusal is one all the same. */
export function finishOf(finish: Finish, hasCalls: boolean): Finish {
  if (hasCalls) return finish.reason === 'stop' || finish.reason === 'sequence' ? { reason: 'tool_calls' } : finish
  return finish.reason === 'tool_calls' ? { reason: 'stop' } : finish
}
