// The table of protocols: one file each.
import { openaiChat } from './openai-chat.ts'
import type { Protocol } from './protocol.ts'

/** Every protocol by its name in records, metrics and docs. */
export const protocols = { 'openai-chat': openaiChat } as const satisfies Record<string, Protocol>

/** The word for a protocol. */
export type ProtocolName = keyof typeof protocols

export type { Collector, Payload, Protocol, ReportedUsage, ShownError, StreamWatch } from './protocol.ts'
