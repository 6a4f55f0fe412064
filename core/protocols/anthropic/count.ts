// The protocol of Anthropic's token counting, which is free and never streamed.
import { noText } from '../text/plain-text.ts'
import { anthropic } from './protocol.ts'
import type { Protocol } from '../protocol.ts'
import { messagesText } from './text.ts'
import { withoutStream } from '../whole.ts'

/** https://platform.claude.com/docs/en/api/messages-count-tokens */
export const anthropicCount: Protocol = withoutStream(anthropic, {
  isAnswer: ({ lens }) => lens?.type('input_tokens') === 'number',
  readUsage: () => undefined,
  text: { ...messagesText, answer: noText }
})
