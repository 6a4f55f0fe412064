// What is special about the model behind a channel, within the protocol it speaks.

/** Facts of a channel or model. What is not given is as the newest models have it. */
export interface Traits {
  /** The longest answer of the model in tokens; what is sent where a protocol demands a limit, and what shares of it are taken from. */
  readonly maxOutputTokens?: number
  /** Chat: the member for the longest answer. */
  readonly maxTokensMember?: 'max_completion_tokens' | 'max_tokens'
  /** Chat: the usage of a stream can be asked for. */
  readonly streamOptions?: boolean
  /** Chat: the role `developer` is known. */
  readonly developerRole?: boolean
  /** Chat: thoughts are taken back, and wanted, as `reasoning_content`. */
  readonly replaysReasoning?: boolean
  /** Messages and Gemini: what sets how much to think. Default: effort and level in words. */
  readonly thinking?: 'effort' | 'budget'
  /** Messages: of temperature and top_p the model takes both, one, or none. Default: one. */
  readonly sampling?: 'both' | 'one' | 'none'
  /** Messages: answers of a schema are asked for as such, or with a tool that takes the schema. Default: as such. */
  readonly jsonSchema?: 'format' | 'tool'
  /** Messages and Gemini: the last turn may be the model's own, to be continued. */
  readonly prefill?: boolean
  /** Responses: false for models that never think, which refuse to be asked for encrypted thoughts. */
  readonly thinks?: boolean
  /** Gemini: pictures and documents are fetched from any address. */
  readonly fetchesUrls?: boolean
}
