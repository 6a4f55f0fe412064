// The protocols between which requests and answers can be translated.
import { messagesCodec } from './anthropic/codec.ts'
import type { Codec } from './canonical/codec.ts'
import { geminiCodec } from './gemini/codec.ts'
import { protocols } from './index.ts'
import { chatCodec } from './openai-chat/codec.ts'
import { responsesCodec } from './openai-responses/codec.ts'
import type { Protocol } from './protocol.ts'

/** Codecs by the protocol's name. Requests of any other protocol only go to upstreams that speak the same one. */
export const codecs = {
  'openai-chat': chatCodec,
  'openai-responses': responsesCodec,
  anthropic: messagesCodec,
  gemini: geminiCodec
} as const satisfies Record<string, Codec>

/** The name of a protocol that can be translated. */
export type CodecName = keyof typeof codecs

const names = new Map(
  (Object.keys(codecs) as CodecName[]).map((name): [Protocol, CodecName] => [protocols[name], name])
)

/** The name of a protocol's codec; undefined when it cannot be translated. */
export function codecNameOf(protocol: Protocol): CodecName | undefined {
  return names.get(protocol)
}
