// Writes the events of a stream.
import { lineEnds } from './directive.ts'
import type { Directive } from './directive.ts'

/** Writes one event, with the blank line that ends it. */
export type EventWriter = (data: string, name?: string) => string

/** A writer with the line ends and comments that a directive asks for. */
export function eventWriter({ comments, line_end: lineEnd = 'lf' }: Directive): EventWriter {
  const end = lineEnds[lineEnd]
  const before = comments ? `: simulator${end}${end}` : ''
  return (data, name) => `${before}${name === undefined ? '' : `event: ${name}${end}`}data: ${data}${end}${end}`
}
