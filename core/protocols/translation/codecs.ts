// The protocols between which requests and answers can be translated.
import { messagesCodec } from '../anthropic/codec.ts'
import { converseCodec } from '../bedrock/codec.ts'
import type { Codec, UpstreamCodec } from '../canonical/codec.ts'
import { geminiCodec } from '../gemini/codec.ts'
import { protocols } from '../index.ts'
import { chatCodec } from '../openai-chat/codec.ts'
import { responsesCodec } from '../openai-responses/codec.ts'
import type { Protocol } from '../protocol.ts'

/**
 * Codecs of the protocols that clients speak, by the protocol's name. Requests of any other protocol only go to
 * upstreams that speak the same one.
 */
export const codecs = {
  'openai-chat': chatCodec,
  'openai-responses': responsesCodec,
  anthropic: messagesCodec,
  gemini: geminiCodec
} as const satisfies Record<string, Codec>

/** Codecs of the protocols that channels speak. */
export const upstreamCodecs = { ...codecs, bedrock: converseCodec } as const satisfies Record<string, UpstreamCodec>

/** The name of a protocol of clients that can be translated. */
export type CodecName = keyof typeof codecs

/** The name of a protocol of channels that can be translated. */
export type UpstreamCodecName = keyof typeof upstreamCodecs

const names = new Map<Protocol, UpstreamCodecName>([
  ...(Object.keys(upstreamCodecs) as UpstreamCodecName[]).map((name) => [protocols[name], name] as const),
  // What is counted is written as what is answered.
  [protocols['anthropic-count'], 'anthropic'],
  [protocols['gemini-count'], 'gemini'],
  [protocols['bedrock-count'], 'bedrock'],
  [protocols['invoke-count'], 'anthropic']
])

/** The name of the codec for channels of a protocol; undefined when it cannot be translated. */
export function upstreamCodecNameOf(protocol: Protocol): UpstreamCodecName | undefined {
  return names.get(protocol)
}

/** The name of the codec for clients of a protocol; undefined when it cannot be translated. */
export function codecNameOf(protocol: Protocol): CodecName | undefined {
  const name = names.get(protocol)
  return name !== undefined && isClients(name) ? name : undefined
}

function isClients(name: UpstreamCodecName): name is CodecName {
  return Object.hasOwn(codecs, name)
}
