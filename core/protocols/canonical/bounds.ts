// Bounds what a stream says at once, and the inputs of its calls: it is read, and written again, in one turn of the
// event loop.
import type { EmitEvent } from './answer.ts'
import { badAnswer } from './untranslatable.ts'

/** Characters of one delta: what models say in one piece is far less. */
const longestDelta = 3 * 1024 * 1024
/** Characters of the input of one call, and of those the ones that are not looked at for what they are made of. */
const mostCharacters = 2 * 1024 * 1024
const freeCharacters = 64 * 1024
/** Values in what comes after those. */
const mostValues = 50_000
const opening = /[,[{]/g

/** The events as they are, as long as they are within bounds. @throws Untranslatable otherwise */
export function withinBounds(emit: EmitEvent): EmitEvent {
  const calls = new Map<number, { characters: number; values: number }>()
  return (event) => {
    if (event.type === 'open' && event.opening.type === 'tool_call') calls.set(event.part, { characters: 0, values: 0 })
    if (event.type === 'close') calls.delete(event.part)
    if (event.type === 'delta') {
      const { length } = event.text
      if (length > longestDelta) throw badAnswer('The upstream sent more in one event than can be translated at once.')
      const call = calls.get(event.part)
      if (call) {
        call.characters += length
        if (call.characters > freeCharacters) call.values += countOf(event.text)
        if (call.characters > mostCharacters || call.values > mostValues)
          throw badAnswer('The upstream sent a call with an input too involved to be translated.')
      }
    }
    emit(event)
  }
}

/** How many values there are in JSON text, at most: what looks like one in a string counts, too. */
function countOf(text: string): number {
  let count = 0
  opening.lastIndex = 0
  while (count <= mostValues && opening.test(text)) count++
  return count
}
