// The protocols that the playground speaks.
import type { Dialect } from '../conversation.ts'
import { chat } from './chat.ts'
import { gemini } from './gemini.ts'
import { messages } from './messages.ts'
import { responses } from './responses.ts'

/** All of them; the first is the usual one. */
export const dialects: readonly Dialect[] = [chat, responses, messages, gemini]

/** The protocol of a name: that of its page here, or of a record's `client_protocol`. */
export function dialectOf(name: string | null): Dialect {
  return dialects.find((one) => one.name === name) ?? dialects.find((one) => recorded[one.name] === name) ?? chat
}

const recorded: Readonly<Record<Dialect['name'], string>> = {
  chat: 'openai-chat',
  responses: 'openai-responses',
  messages: 'anthropic',
  gemini: 'gemini'
}
