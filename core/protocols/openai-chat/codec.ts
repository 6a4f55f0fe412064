// The codec of chat completions.
import type { Codec } from '../canonical/codec.ts'
import { decodeAnswer } from './answer-decode.ts'
import { encodeAnswer } from './answer-encode.ts'
import { capabilities } from './capabilities.ts'
import { decodeRequest } from './request-decode.ts'
import { encodeRequest } from './request-encode.ts'
import { ChatStreamDecoder } from './stream-decode.ts'
import { ChatStreamEncoder } from './stream-encode.ts'

/** https://platform.openai.com/docs/api-reference/chat */
export const chatCodec: Codec = {
  family: 'openai',
  conversation: 'messages',
  capabilities,
  toolNames: { illegal: /[^a-zA-Z0-9_-]/g, longest: 64 },
  // The vendor refuses longer ids; compatible upstreams have no other limits.
  callIds: { longest: 40 },
  customTools: false,
  decodeRequest,
  encodeRequest,
  decodeAnswer,
  encodeAnswer,
  decodeStream: (id) => new ChatStreamDecoder(id),
  encodeStream: (head) => new ChatStreamEncoder(head)
}
