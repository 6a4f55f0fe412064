// The codec of Gemini's generateContent.
import type { Codec } from '../canonical/codec.ts'
import { decodeAnswer } from './answer-decode.ts'
import { encodeAnswer } from './answer-encode.ts'
import { capabilities } from './capabilities.ts'
import { decodeRequest } from './request-decode.ts'
import { encodeRequest } from './request-encode.ts'
import { withoutSealed } from './sealed.ts'
import { GeminiStreamDecoder } from './stream-decode.ts'
import { GeminiStreamEncoder } from './stream-encode.ts'

/** https://ai.google.dev/api/generate-content */
export const geminiCodec: Codec = {
  family: 'gemini',
  conversation: 'contents',
  capabilities,
  toolNames: { illegal: /^[^a-zA-Z_]|[^a-zA-Z0-9_.-]/g, longest: 64 },
  callIds: { longest: 256 },
  customTools: false,
  decodeRequest,
  encodeRequest,
  decodeAnswer,
  encodeAnswer,
  withoutSealed,
  decodeStream: (id) => new GeminiStreamDecoder(id),
  encodeStream: (head) => new GeminiStreamEncoder(head)
}
