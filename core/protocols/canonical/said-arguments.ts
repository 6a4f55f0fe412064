// Says what a call without arguments has: an empty object, unless the answer was cut before they came.
import type { AnswerEvent, EmitEvent } from './answer.ts'
import { isCut } from './finish.ts'

type Close = AnswerEvent & { type: 'close' }

/**
 * Events in which a call that closes without input has none because it was cut. Whether it was is known when something
 * follows it or the answer has ended: until then its end is held back.
 */
export function saidArguments(emit: EmitEvent): EmitEvent {
  /** Calls that are open, with their candidates. */
  const calls = new Map<number, number>()
  /** By candidate: the ends of calls without input. */
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
