// The table of all protocols.
import { anthropicCount } from './anthropic/count.ts'
import { anthropic } from './anthropic/protocol.ts'
import { converseCount, invokeCount } from './bedrock/count.ts'
import { bedrockEmbed } from './bedrock/embed.ts'
import { bedrock } from './bedrock/protocol.ts'
import { geminiCount, geminiEmbed, geminiPredict } from './gemini/plain.ts'
import { gemini } from './gemini/protocol.ts'
import { openaiChat } from './openai-chat/protocol.ts'
import { openaiCompletions } from './openai/completions.ts'
import { openaiEmbeddings } from './openai/embeddings.ts'
import { openaiImages } from './openai/images.ts'
import { openaiModerations } from './openai/moderations.ts'
import { keptResponses, openaiResponses } from './openai-responses/protocol.ts'
import { openaiRealtime } from './openai/realtime.ts'
import { rerank } from './openai/rerank.ts'
import { openaiSpeech } from './openai/speech.ts'
import { openaiTranscriptions } from './openai/transcriptions.ts'
import { openaiVideoFile, openaiVideos } from './openai/videos.ts'
import type { Protocol } from './protocol.ts'

/** Every protocol by its name in records, metrics and docs. */
export const protocols = {
  'openai-chat': openaiChat,
  'openai-responses': openaiResponses,
  'openai-responses-kept': keptResponses,
  anthropic,
  gemini,
  bedrock,
  'bedrock-embed': bedrockEmbed,
  'bedrock-count': converseCount,
  'invoke-count': invokeCount,
  'anthropic-count': anthropicCount,
  'gemini-count': geminiCount,
  'gemini-embed': geminiEmbed,
  'gemini-predict': geminiPredict,
  'openai-embeddings': openaiEmbeddings,
  'openai-moderations': openaiModerations,
  'openai-completions': openaiCompletions,
  'openai-images': openaiImages,
  'openai-speech': openaiSpeech,
  'openai-transcriptions': openaiTranscriptions,
  'openai-realtime': openaiRealtime,
  'openai-videos': openaiVideos,
  'openai-video-file': openaiVideoFile,
  rerank
} as const satisfies Record<string, Protocol>

/** The name of a protocol. */
export type ProtocolName = keyof typeof protocols

export type {
  AnswerText,
  Collector,
  EditedEvent,
  Payload,
  Protocol,
  ProtocolText,
  ReportedUsage,
  ShownError,
  StreamFraming,
  StreamWatch,
  Tally,
  TextBlock,
  TextEditor,
  TextEvent,
  TextKind,
  TextPart,
  UsageReader
} from './protocol.ts'
export { Uninspectable } from './text/uninspectable.ts'
export type { ClientFrame, FrameProtocol, FrameWatch, UpstreamFrame } from './frames.ts'
