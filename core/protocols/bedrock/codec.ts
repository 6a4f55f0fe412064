// The codec of Bedrock's Converse, for channels.
import type { UpstreamCodec } from '../canonical/codec.ts'
import { decodeAnswer } from './answer-decode.ts'
import { capabilities } from './capabilities.ts'
import { encodeRequest } from './request-encode.ts'
import { ConverseStreamDecoder } from './stream-decode.ts'

/** https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html */
export const converseCodec: UpstreamCodec = {
  family: 'bedrock',
  capabilities,
  toolNames: { illegal: /[^a-zA-Z0-9_-]/g, longest: 64 },
  callIds: { illegal: /[^a-zA-Z0-9_-]/g, longest: 64 },
  customTools: false,
  encodeRequest,
  decodeAnswer,
  decodeStream: () => new ConverseStreamDecoder()
}
