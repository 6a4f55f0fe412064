// Keeps characters whole that an upstream sends in two halves: readers that take each event for itself would make
// nothing of them.
import type { EmitEvent } from './answer.ts'

/** Holds the first half of a character back until the other half has come, or the part is over. */
export function wholeCharacters(emit: EmitEvent): EmitEvent {
  /** First halves, by their part. */
  const held = new Map<number, string>()
  return (event) => {
    if (event.type === 'close') {
      const half = held.get(event.part)
      if (half !== undefined) emit({ type: 'delta', part: event.part, text: half })
      held.delete(event.part)
    }
    if (event.type !== 'delta') return emit(event)
    const before = held.get(event.part)
    const isHalf = isFirstHalf(event.text.charCodeAt(event.text.length - 1))
    if (before === undefined && !isHalf) return emit(event)
    const text = (before ?? '') + event.text
    if (isHalf) held.set(event.part, text.slice(-1))
    else held.delete(event.part)
    const whole = isHalf ? text.slice(0, -1) : text
    if (whole !== '' || event.logprobs) emit({ ...event, text: whole })
  }
}

/** Of the UTF-16 code of a character that takes two of them. */
function isFirstHalf(code: number): boolean {
  return (code & 0xfc00) === 0xd800
}
