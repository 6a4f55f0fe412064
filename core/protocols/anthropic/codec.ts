// The codec of Anthropic's Messages.
import type { Codec } from '../canonical/codec.ts'
import { decodeAnswer } from './answer-decode.ts'
import { encodeAnswer } from './answer-encode.ts'
import { capabilities } from './capabilities.ts'
import { decodeRequest } from './request-decode.ts'
import { encodeRequest } from './request-encode.ts'
import { withoutSealed } from './sealed.ts'
import { MessagesStreamDecoder } from './stream-decode.ts'
import { MessagesStreamEncoder } from './stream-encode.ts'

/** https://platform.claude.com/docs/en/api/messages */
export const messagesCodec: Codec = {
  family: 'anthropic',
  conversation: 'messages',
  capabilities,
  toolNames: { illegal: /[^a-zA-Z0-9_-]/g, longest: 64 },
  callIds: { illegal: /[^a-zA-Z0-9_-]/g, longest: 64 },
  customTools: false,
  decodeRequest,
  encodeRequest,
  decodeAnswer,
  encodeAnswer,
  withoutSealed,
  decodeStream: () => new MessagesStreamDecoder(),
  encodeStream: (head) => new MessagesStreamEncoder(head)
}
