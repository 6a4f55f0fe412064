// The protocols between which requests and answers can be translated.
import { messagesCodec } from './anthropic/codec.ts'
import type { Codec } from './canonical/codec.ts'
import { geminiCodec } from './gemini/codec.ts'
import { protocols } from './index.ts'
import { chatCodec } from './openai-chat/codec.ts'
import { responsesCodec } from './openai-responses/codec.ts'
import type { Protocol } from './protocol.ts'

/** By the protocol's name; what is not here is only passed on to upstreams that speak the same. */
export const codecs = {
  'openai-chat': chatCodec,
  'openai-responses': responsesCodec,
  anthropic: messagesCodec,
  gemini: geminiCodec
} as const satisfies Record<string, Codec>

/** The word for a protocol that can be translated. */
export type CodecName = keyof typeof codecs

const names = new Map(
  (Object.keys(codecs) as CodecName[]).map((name): [Protocol, CodecName] => [protocols[name], name])
)

/** How a protocol is translated; undefined for one that clients and upstreams have to speak alike. */
export function codecNameOf(protocol: Protocol): CodecName | undefined {
  return names.get(protocol)
}
