// How the events of a stream are written.
import { lineEnds } from './directive.ts'
import type { Directive } from './directive.ts'

/** Makes one event, closed by its blank line. */
export type EventWriter = (data: string, name?: string) => string

/** Events as a directive wants them: with which line ends, and with comments or without. */
export function eventWriter({ comments, line_end: lineEnd = 'lf' }: Directive): EventWriter {
  const end = lineEnds[lineEnd]
  const before = comments ? `: simulator${end}${end}` : ''
  return (data, name) => `${before}${name === undefined ? '' : `event: ${name}${end}`}data: ${data}${end}${end}`
}
