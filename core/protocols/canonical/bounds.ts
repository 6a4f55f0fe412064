// Bounds single deltas and the inputs of calls, because each is read and written in one turn of the event loop.
import type { EmitEvent } from './answer.ts'
import { tooLarge } from './untranslatable.ts'

/** The longest delta, in characters. Models send far less at once. */
const longestDelta = 3 * 1024 * 1024
/** The longest input of a call, in characters, and how many of them are not searched for values. */
const mostCharacters = 2 * 1024 * 1024
const freeCharacters = 64 * 1024
/** How many values the input may have after those. */
const mostValues = 50_000
const opening = /[,[{]/g

/**
 * Passes events on while they are within bounds.
 * @throws Untranslatable when one is not
 */
export function withinBounds(emit: EmitEvent): EmitEvent {
  const calls = new Map<number, { characters: number; values: number }>()
  return (event) => {
    if (event.type === 'open' && event.opening.type === 'tool_call') calls.set(event.part, { characters: 0, values: 0 })
    if (event.type === 'close') calls.delete(event.part)
    if (event.type === 'delta') {
      const { length } = event.text
      if (length > longestDelta) throw tooLarge('The upstream sent more in one event than can be translated at once.')
      const call = calls.get(event.part)
      if (call) {
        call.characters += length
        if (call.characters > freeCharacters) call.values += countOf(event.text)
        if (call.characters > mostCharacters || call.values > mostValues)
          throw tooLarge('The upstream sent a call with an input too involved to be translated.')
      }
    }
    emit(event)
  }
}

/** An upper bound for the values in JSON text: what resembles one inside a string counts, too. */
function countOf(text: string): number {
  let count = 0
  opening.lastIndex = 0
  while (count <= mostValues && opening.test(text)) count++
  return count
}
