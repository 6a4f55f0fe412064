// The codec of OpenAI's Responses.
import type { Codec } from '../canonical/codec.ts'
import { decodeAnswer } from './answer-decode.ts'
import { encodeAnswer } from './answer-encode.ts'
import { capabilities } from './capabilities.ts'
import { decodeRequest } from './request-decode.ts'
import { encodeRequest } from './request-encode.ts'
import { withoutSealed } from './sealed.ts'
import { ResponsesStreamDecoder } from './stream-decode.ts'
import { ResponsesStreamEncoder } from './stream-encode.ts'

/** https://platform.openai.com/docs/api-reference/responses */
export const responsesCodec: Codec = {
  family: 'openai',
  conversation: 'input',
  capabilities,
  repeats: [
    'instructions',
    'max_output_tokens',
    'parallel_tool_calls',
    'reasoning',
    'temperature',
    'text',
    'tool_choice',
    'tools',
    'top_p',
    'truncation',
    'user',
    'metadata'
  ],
  toolNames: { illegal: /[^a-zA-Z0-9_-]/g, longest: 64 },
  callIds: { longest: 64 },
  customTools: true,
  decodeRequest,
  encodeRequest,
  decodeAnswer,
  encodeAnswer,
  withoutSealed,
  decodeStream: () => new ResponsesStreamDecoder(),
  encodeStream: (head) => new ResponsesStreamEncoder(head)
}
