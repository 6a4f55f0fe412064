// What is said in a conversation of the playground, in no protocol's own form.

/** A part of a message. Data are base64. */
export type Part =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'picture' | 'sound'; readonly media: string; readonly data: string; readonly name: string }
  | { readonly kind: 'call'; readonly id: string; readonly name: string; readonly arguments: string }
  | { readonly kind: 'result'; readonly id: string; readonly name: string; readonly text: string }

/** A message. */
export interface Message {
  readonly role: 'user' | 'assistant'
  readonly parts: readonly Part[]
  /**
   * An answer as its protocol has it, which goes back as it came: signatures of thoughts would be lost otherwise. It
   * counts in that protocol alone.
   */
  readonly raw?: { readonly protocol: string; readonly content: unknown }
}

/** A tool that a model may call. `parameters` is a JSON schema. */
export interface Tool {
  readonly name: string
  readonly description?: string
  readonly parameters?: Readonly<Record<string, unknown>>
}

/** A call of a tool. `arguments` is JSON, or what there is of it while it comes. */
export interface ToolCall {
  readonly id: string
  readonly name: string
  readonly arguments: string
}

/** What is asked for. */
export interface Ask {
  readonly model: string
  readonly stream: boolean
  readonly system: string
  readonly messages: readonly Message[]
  readonly tools: readonly Tool[]
  readonly max: number | undefined
  readonly temperature: number | undefined
  readonly topP: number | undefined
}

/** An answer while it comes. */
export interface Answer {
  text: string
  thoughts: string
  calls: ToolCall[]
  pictures: { media: string; data: string }[]
  /** Why it ended, in the protocol's word. */
  finish: string | undefined
  input: number | undefined
  output: number | undefined
  /** What went wrong after it began. */
  error: string | undefined
  /** As the protocol has it, for {@link Message.raw}. */
  raw: unknown
}

/** An answer of which nothing has come. */
export const noAnswer = (): Answer => ({
  text: '',
  thoughts: '',
  calls: [],
  pictures: [],
  finish: undefined,
  input: undefined,
  output: undefined,
  error: undefined,
  raw: undefined
})

/** How one of the protocols says all that. */
export interface Dialect {
  readonly name: 'chat' | 'responses' | 'messages' | 'gemini'
  readonly title: string
  /** The path of the data listener. */
  path(model: string, stream: boolean): string
  /** @throws Error in words for people, when the protocol cannot say something */
  body(ask: Ask): Record<string, unknown>
  /** Takes an answer that came whole. */
  whole(answer: Answer, json: unknown): void
  /** Takes the data of an event of a stream. */
  event(answer: Answer, json: unknown): void
}

/** The texts of a message, together. */
export function textOf({ parts }: Message): string {
  return parts.flatMap((part) => (part.kind === 'text' ? [part.text] : [])).join('')
}
