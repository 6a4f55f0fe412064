// Gives calls without arguments an empty object as their input, unless the answer was cut before the arguments came.
import type { AnswerEvent, EmitEvent } from './answer.ts'
import { isCut } from './finish.ts'

type Close = AnswerEvent & { type: 'close' }

/**
 * Passes events on, with `{}` as the input of calls that close without any. If the answer was cut, the input stays
 * empty. That is known only when something follows the call or the answer ends, so the call's end is held back until
 * then.
 */
export function saidArguments(emit: EmitEvent): EmitEvent {
  /** Open calls, with the candidate of each. */
  const calls = new Map<number, number>()
  /** The held ends of calls without input, by candidate. */
  const held = new Map<number, Close[]>()
  const settle = (candidate: number, cut: boolean): void => {
    const closes = held.get(candidate)
    if (!closes) return
    held.delete(candidate)
    for (const close of closes) {
      if (!cut) emit({ type: 'delta', part: close.part, text: '{}' })
      emit(cut ? close : { ...close, text: `${close.text}{}` })
    }
  }
  return (event) => {
    if (event.type === 'open') {
      settle(event.candidate, false)
      if (event.opening.type === 'tool_call' && !event.opening.custom) calls.set(event.part, event.candidate)
    } else if (event.type === 'close') {
      const candidate = calls.get(event.part)
      calls.delete(event.part)
      if (candidate !== undefined && event.text.trim() === '') {
        held.set(candidate, [...(held.get(candidate) ?? []), event])
        return
      }
    } else if (event.type === 'finish') settle(event.candidate, isCut(event.finish))
    emit(event)
  }
}
