// The table of protocols: one file each.
import { openaiChat } from './openai-chat.ts'
import { openaiEmbeddings } from './openai/embeddings.ts'
import { openaiModerations } from './openai/moderations.ts'
import { rerank } from './openai/rerank.ts'
import type { Protocol } from './protocol.ts'

/** Every protocol by its name in records, metrics and docs. */
export const protocols = {
  'openai-chat': openaiChat,
  'openai-embeddings': openaiEmbeddings,
  'openai-moderations': openaiModerations,
  rerank
} as const satisfies Record<string, Protocol>

/** The word for a protocol. */
export type ProtocolName = keyof typeof protocols

export type {
  AnswerText, Collector, Payload, Protocol, ProtocolText, ReportedUsage, ShownError, StreamWatch, TextBlock, TextEditor, TextEvent, TextKind, TextPart
} from './protocol.ts'
