// What every client library is asked to do in its own way: to hold a conversation with a tool.

/** Where a library finds the gateway. */
export interface Address {
  /** Without `/v1`. */
  url: string
  key: string
  model: string
}

/** What the model said in one turn, in words that all libraries share. */
export interface Said {
  text: string
  /** What it let see of its thoughts; undefined where the library has no place for them. */
  thoughts: string | undefined
  calls: { name: string; input: unknown }[]
  /** `other: …` has the library's own word. */
  ended: 'stop' | 'calls' | 'length' | `other: ${string}`
  /** Tokens; `input` with those from a cache. */
  usage: { input: number; cached: number; output: number }
}

/** One conversation, whose history the library keeps in its own form. */
export interface Conversation {
  ask(text: string): Promise<Said>
  /** Gives the calls of the last turn their results, in order. */
  answer(results: readonly string[]): Promise<Said>
}

export interface Library {
  /** Package and major version. */
  name: string
  /** What a request record calls its protocol. */
  protocol: string
  /** False: it has no place for thoughts. */
  sees?: boolean
  /** False: its sum of a stream's tokens is wrong with the vendor too. */
  sums?: boolean
  open(address: Address, streamed: boolean): Conversation
}

/** The one tool of all conversations. */
export const tool = {
  name: 'get_weather',
  description: 'The weather of a city.',
  schema: {
    type: 'object' as const,
    properties: { city: { type: 'string' as const, description: 'Its name.' } },
    required: ['city']
  }
}

/** Every answer may be so long, in tokens; thoughts included. */
export const longest = 2000

/** A library's word for the end, looked up in what is known of it. */
export function endedAs(
  word: string | null | undefined,
  known: Readonly<Record<string, Said['ended']>>
): Said['ended'] {
  return known[String(word)] ?? `other: ${word}`
}
