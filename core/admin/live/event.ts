// The events of live streams: what they are about, and their bytes.
import type { Actor } from '../api/audit.ts'

/** What a stream may be about. */
export const topics = ['overview', 'requests', 'troubles', 'config'] as const

/** What an event is about. */
export type Topic = (typeof topics)[number]

/** The name of the event that a topic has. */
const names: Readonly<Record<Topic, string>> = {
  overview: 'tick',
  requests: 'requests',
  troubles: 'troubles',
  config: 'config'
}

/** Whom a stream is for, and what it is about. */
export interface Asked {
  readonly by: Actor
  /** Null: the whole gateway. */
  readonly tenant: string | null
  readonly topics: ReadonlySet<Topic>
}

/** What an audience is shown besides requests, as JSON; undefined while that is not known. Asked once a second. */
export interface Sights {
  troubles(): string | undefined
  config(): string | undefined
}

/** An event, rendered once for all who get it. */
export interface LiveEvent {
  readonly topic: Topic
  /** Counts from 1 on in one epoch. */
  readonly number: number
  readonly id: string
  /** The name of the event. */
  readonly name: string
  /** JSON. */
  readonly data: string
  /** The bytes of the stream: https://html.spec.whatwg.org/multipage/server-sent-events.html */
  readonly text: string
}

/** Makes an event. JSON has no line breaks, so that it is one line of data. */
export function eventOf(topic: Topic, epoch: string, number: number, data: string): LiveEvent {
  const name = names[topic]
  const id = `${epoch}-${number}`
  return { topic, number, id, name, data, text: `id: ${id}\n${block(name, data)}` }
}

/** An event without an id, which is not sent again. */
export function block(name: string, data: string): string {
  return `event: ${name}\ndata: ${data}\n\n`
}
