// A client's request to a model, in the form between all protocols: decoders make it, and encoders read it.

/** The provider that made something opaque. Nobody else can read it, and nobody else may be sent it. */
export type Family = 'openai' | 'anthropic' | 'gemini' | 'bedrock'

/** One request for an answer. Owned by the translation that made it; encoders only read it. */
export interface ModelRequest {
  /** The client's name of the model. */
  model: string
  /** Whether the client wants a stream. */
  streaming: boolean
  turns: Turn[]
  tools: Tool[]
  toolChoice: ToolChoice | undefined
  /** False: at most one call in an answer. Undefined: the model decides. */
  parallelToolCalls: boolean | undefined
  format: OutputFormat | undefined
  reasoning: ReasoningWish
  /** In tokens, reasoning included. */
  maxOutputTokens: number | undefined
  temperature: number | undefined
  topP: number | undefined
  topK: number | undefined
  presencePenalty: number | undefined
  frequencyPenalty: number | undefined
  seed: number | undefined
  /** Stop sequences; empty when there are none. */
  stop: string[]
  /** How many independent answers are wanted. */
  candidates: number | undefined
  /** How many alternatives to show for each token. Undefined: no probabilities at all. */
  logprobs: number | undefined
  /** The end user, as the client names them. */
  user: string | undefined
  safetyIdentifier: string | undefined
  metadata: Record<string, unknown> | undefined
  serviceTier: string | undefined
  verbosity: string | undefined
  promptCacheKey: string | undefined
  /** Marks the whole prompt for the cache. */
  cache?: CacheMark
}

/**
 * Part of the conversation by one party. Results of tools are turns of their own, right after their calls. Neighbours
 * of the same role stay separate; encoders join them where their protocol wants roles to alternate.
 */
export type Turn = SystemTurn | UserTurn | AssistantTurn | ToolTurn

export interface SystemTurn {
  role: 'system'
  parts: TextPart[]
  /** Whether the client wrote `developer` instead of `system`. */
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
  /** Marks the prompt up to here for the cache. */
  cache?: CacheMark
  /** The signature of this text, in protocols that sign text. */
  proof?: Proof
}

/** What the model says when it declines, in protocols that distinguish it from text. */
export interface RefusalPart {
  type: 'refusal'
  text: string
}

/** Media of any kind. */
export interface MediaPart {
  type: 'image' | 'document' | 'audio' | 'video'
  source: MediaSource
  /** A file name or a document's title. */
  name?: string
  /** How closely to look at a picture: low, high, auto or original. */
  detail?: string
  cache?: CacheMark
}

export type MediaSource =
  /** Base64 without line breaks. The media type is in lower case, such as `image/png`. */
  | { kind: 'data'; mimeType: string; data: string }
  | { kind: 'url'; url: string; mimeType?: string }
  /** A file that a provider keeps, under an id that only this provider knows. */
  | { kind: 'stored'; family: Family; id: string; mimeType?: string }

/** What a model thought, as far as its provider shows it. */
export interface ReasoningPart {
  type: 'reasoning'
  /** Empty when only the proof is known. */
  text: string
  proof?: Proof
}

/** What a provider requires to be sent back unchanged: a signature, or encrypted thoughts. */
export interface Proof {
  family: Family
  /** `call`: the signature of the call that follows. `redacted`: thoughts without text. */
  kind: 'signature' | 'call' | 'redacted' | 'encrypted'
  value: string
  /** The id of the item that it came in, where the provider gives one. */
  id?: string
}

/** Anthropic's `cache_control`: that something is to be cached, and for how long. */
export type CacheMark = Record<string, unknown>

/** A call that the model made. */
export interface ToolCall {
  type: 'tool_call'
  /**
   * Pairs the call with its result. It is the client's own, so it may be empty or belong to several calls; see
   * `withLegalIds`.
   */
  id: string
  name: string
  /** The namespace that the tool was offered in, in protocols that have them. */
  namespace?: string
  /** Whether the input is free text instead of JSON. */
  custom: boolean
  /** JSON text of an object, or free text. Of a call that was cut off, what has come of it. */
  input: string
  proof?: Proof
  cache?: CacheMark
}

/** The result of a call. */
export interface ToolResult {
  id: string
  /** The name of the tool; empty when the call is not in the conversation. */
  name: string
  namespace?: string
  custom: boolean
  parts: (TextPart | MediaPart)[]
  /** Whether the tool failed. */
  error: boolean
  cache?: CacheMark
}

/** A tool that the model may call. */
export interface Tool {
  name: string
  namespace?: string
  description: string | undefined
  /** The JSON Schema of its arguments, an object; undefined when none was given. */
  parameters: Record<string, unknown> | undefined
  /** Whether arguments must follow the schema exactly; undefined when nothing was said. */
  strict: boolean | undefined
  /** Whether it takes free text instead of arguments. */
  custom: boolean
  /** The grammar that its free text has to follow. */
  grammar?: { syntax: string; definition: string }
  cache?: CacheMark
}

/** `allowed`: only these of the offered tools may be called. */
export type ToolChoice = { mode: 'auto' | 'none' | 'required'; allowed?: string[] } | { mode: 'named'; name: string }

/** The form that the text of the answer must have. */
export type OutputFormat =
  | { type: 'json_object' }
  | {
      type: 'json_schema'
      name: string
      description: string | undefined
      schema: Record<string, unknown>
      strict: boolean | undefined
    }

/** How much the model should think. With all members undefined it decides by itself. */
export interface ReasoningWish {
  /** none, minimal, low, medium, high, xhigh, max, or a newer word. */
  effort: string | undefined
  /** How many tokens to think with; 0 turns thinking off. */
  tokens: number | undefined
  /** Whether thoughts, or a summary of them, are to be shown. Undefined: the default of the protocol. */
  visible: boolean | undefined
}

/** A request without turns and settings, for decoders to fill. */
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

/** Tools by their names; of several with one name the first. A request may have very many. */
export function byName(tools: readonly Tool[]): ReadonlyMap<string, Tool> {
  return new Map(tools.toReversed().map((tool) => [tool.name, tool]))
}

/** The tools that may be called, for upstreams that cannot be told that only some of the offered ones are allowed. */
export function offered({ tools, toolChoice }: ModelRequest): readonly Tool[] {
  const allowed = toolChoice && toolChoice.mode !== 'named' ? toolChoice.allowed : undefined
  if (!allowed) return tools
  const names = new Set(allowed)
  return tools.filter(({ name }) => names.has(name))
}
