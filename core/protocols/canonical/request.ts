// What a client asks of a model, in the one form that every protocol is read into and written from.

/** Whose word something opaque is: nobody else can read it, and nobody else may be given it. */
export type Family = 'openai' | 'anthropic' | 'gemini'

/** One request for an answer. Owned by the translation that made it; encoders only read it. */
export interface ModelRequest {
  /** As the client calls it. */
  model: string
  /** The client wants events. */
  streaming: boolean
  turns: Turn[]
  tools: Tool[]
  toolChoice: ToolChoice | undefined
  /** False: at most one call an answer. Undefined: as the model likes. */
  parallelToolCalls: boolean | undefined
  format: OutputFormat | undefined
  reasoning: ReasoningWish
  /** Tokens, reasoning included. */
  maxOutputTokens: number | undefined
  temperature: number | undefined
  topP: number | undefined
  topK: number | undefined
  presencePenalty: number | undefined
  frequencyPenalty: number | undefined
  seed: number | undefined
  /** Empty when there are none. */
  stop: string[]
  /** Independent answers. */
  candidates: number | undefined
  /** How many alternatives to show for each token; undefined: no probabilities at all. */
  logprobs: number | undefined
  /** Whoever stands behind the client, as the client names them. */
  user: string | undefined
  safetyIdentifier: string | undefined
  metadata: Record<string, unknown> | undefined
  serviceTier: string | undefined
  verbosity: string | undefined
  promptCacheKey: string | undefined
  /** The whole prompt is to be kept in a cache. */
  cache?: CacheMark
}

/**
 * A stretch of the conversation by one party. Results of tools are turns of their own, right after the calls;
 * neighbours of the same role stay apart, and encoders join them where their protocol wants turns to alternate.
 */
export type Turn = SystemTurn | UserTurn | AssistantTurn | ToolTurn

export interface SystemTurn {
  role: 'system'
  parts: TextPart[]
  /** The client said `developer`. */
  developer: boolean
}

export interface UserTurn {
  role: 'user'
  parts: UserPart[]
}

export interface AssistantTurn {
  role: 'assistant'
  parts: AssistantPart[]
}

export interface ToolTurn {
  role: 'tool'
  results: ToolResult[]
}

export type UserPart = TextPart | MediaPart

export type AssistantPart = TextPart | RefusalPart | ReasoningPart | ToolCall | MediaPart

export interface TextPart {
  type: 'text'
  text: string
  /** What is up to here is to be kept in a cache. */
  cache?: CacheMark
  /** Of this part, where a protocol signs text. */
  proof?: Proof
}

/** The model's words when it declines, where a protocol tells them from text. */
export interface RefusalPart {
  type: 'refusal'
  text: string
}

/** Something that is not text. */
export interface MediaPart {
  type: 'image' | 'document' | 'audio' | 'video'
  source: MediaSource
  /** A file's name or a document's title. */
  name?: string
  /** How closely a picture is to be looked at: low, high, auto, original. */
  detail?: string
  cache?: CacheMark
}

export type MediaSource =
  /** Base64 without line breaks; the media type in lower case, such as `image/png`. */
  | { kind: 'data'; mimeType: string; data: string }
  | { kind: 'url'; url: string; mimeType?: string }
  /** A file kept by a provider, under a name that only this provider knows. */
  | { kind: 'stored'; family: Family; id: string; mimeType?: string }

/** What a model thought, as far as its provider shows it. */
export interface ReasoningPart {
  type: 'reasoning'
  /** Empty when only the proof was given. */
  text: string
  proof?: Proof
}

/** What a provider demands back unchanged: a signature, or thoughts that are encrypted. */
export interface Proof {
  family: Family
  /** `call`: a signature of the call that follows. `redacted`: thoughts that have no text. */
  kind: 'signature' | 'call' | 'redacted' | 'encrypted'
  value: string
  /** Of the item, where the provider names it. */
  id?: string
}

/** That something is to be kept in a cache, and how long, as Anthropic has it. */
export type CacheMark = Record<string, unknown>

/** A call that the model made. */
export interface ToolCall {
  type: 'tool_call'
  /** What the result is paired by, as the client has it: it may be empty, or of several calls (see `withLegalIds`). */
  id: string
  name: string
  /** The group the tool was offered in, where a protocol has such. */
  namespace?: string
  /** The input is free text and not JSON. */
  custom: boolean
  /** JSON text of an object, or the free text; of a call that was cut off, as far as it came. */
  input: string
  proof?: Proof
  cache?: CacheMark
}

/** What a call came to. */
export interface ToolResult {
  id: string
  /** Of the tool; empty when the call is not in the conversation. */
  name: string
  namespace?: string
  custom: boolean
  parts: (TextPart | MediaPart)[]
  /** The tool failed. */
  error: boolean
  cache?: CacheMark
}

/** A function that the model may call. */
export interface Tool {
  name: string
  namespace?: string
  description: string | undefined
  /** JSON Schema of an object; undefined when nothing was said. */
  parameters: Record<string, unknown> | undefined
  /** Whether arguments must follow the schema to the letter; undefined when nothing was said. */
  strict: boolean | undefined
  /** Takes free text instead of arguments. */
  custom: boolean
  /** What the free text has to follow. */
  grammar?: { syntax: string; definition: string }
  cache?: CacheMark
}

/** `allowed`: only these, of the tools that are offered. */
export type ToolChoice = { mode: 'auto' | 'none' | 'required'; allowed?: string[] } | { mode: 'named'; name: string }

/** What the text of the answer must be. */
export type OutputFormat =
  | { type: 'json_object' }
  | {
      type: 'json_schema'
      name: string
      description: string | undefined
      schema: Record<string, unknown>
      strict: boolean | undefined
    }

/** How much the model should think; all undefined: as it likes. */
export interface ReasoningWish {
  /** none, minimal, low, medium, high, xhigh, max, or a word newer than this list. */
  effort: string | undefined
  /** Tokens; 0 is none. */
  tokens: number | undefined
  /** Whether the thoughts, or a summary of them, are to be shown; undefined: as the protocol has it. */
  visible: boolean | undefined
}

/** A request that asks for nothing in particular. */
export function emptyRequest(model: string, streaming: boolean): ModelRequest {
  return {
    model,
    streaming,
    turns: [],
    tools: [],
    toolChoice: undefined,
    parallelToolCalls: undefined,
    format: undefined,
    reasoning: { effort: undefined, tokens: undefined, visible: undefined },
    maxOutputTokens: undefined,
    temperature: undefined,
    topP: undefined,
    topK: undefined,
    presencePenalty: undefined,
    frequencyPenalty: undefined,
    seed: undefined,
    stop: [],
    candidates: undefined,
    logprobs: undefined,
    user: undefined,
    safetyIdentifier: undefined,
    metadata: undefined,
    serviceTier: undefined,
    verbosity: undefined,
    promptCacheKey: undefined
  }
}

/**
 * The tools that a model may call, for upstreams that cannot be told that only some of what they are offered is
 * allowed.
 */
export function offered({ tools, toolChoice }: ModelRequest): readonly Tool[] {
  const allowed = toolChoice && toolChoice.mode !== 'named' ? toolChoice.allowed : undefined
  return allowed ? tools.filter(({ name }) => allowed.includes(name)) : tools
}
