// Joins characters that an upstream splits between two events: a reader of single events could not decode the halves.
import type { EmitEvent } from './answer.ts'

/** Holds back the first half of a character until the second comes or the part ends. */
export function wholeCharacters(emit: EmitEvent): EmitEvent {
  /** The first halves that wait, by part. */
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

/** Whether a UTF-16 code unit is the first of a pair. */
function isFirstHalf(code: number): boolean {
  return (code & 0xfc00) === 0xd800
}
