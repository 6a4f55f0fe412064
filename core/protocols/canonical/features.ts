// The features in which the protocols differ, and what translation can do with each.

/** Features of requests, with the words that describe them in the table of translations. */
export const requestFeatures = {
  system: 'instructions at the front',
  system_later: 'instructions in mid-conversation',
  message_name: 'names of participants',
  image: 'pictures in the request',
  image_url: 'pictures by their address',
  image_detail: 'how closely to look at a picture',
  document: 'documents in the request (PDF)',
  text_document: 'documents of plain text',
  document_url: 'documents by their address',
  audio: 'sound in the request',
  video: 'video, in the request or by its address',
  stored_file: 'files kept by a provider',
  tools: 'functions',
  tool_strict: 'arguments that follow their schema to the letter',
  tool_namespace: 'tools in groups',
  custom_tool: 'tools that take free text',
  custom_tool_grammar: 'tools that take text of a grammar',
  server_tool: 'tools that the provider runs',
  tool_choice: 'none, any or a certain tool',
  allowed_tools: 'some of the tools',
  parallel_tool_calls: 'one call at a time',
  tool_result_media: 'pictures and documents in results',
  tool_result_error: 'results that say that the tool failed',
  image_replay: 'pictures that the model made, in the conversation',
  refusal_replay: 'refusals in the conversation',
  partial_answer: 'the beginning of the answer at the end of the conversation',
  reasoning_replay: 'thoughts in the conversation',
  reasoning_proof: 'signed or encrypted thoughts in the conversation',
  json_object: 'an answer in JSON',
  json_schema: 'an answer of a schema',
  reasoning_effort: 'how much to think, in words',
  reasoning_budget: 'how much to think, in tokens',
  reasoning_visible: 'whether thoughts are shown',
  max_output_tokens: 'longest answer',
  temperature: 'temperature',
  top_p: 'nucleus sampling',
  top_k: 'sampling from the most likely tokens',
  presence_penalty: 'penalty for what was said',
  frequency_penalty: 'penalty for what was said often',
  seed: 'seed',
  stop: 'stop sequences',
  candidates: 'several answers',
  logprobs: 'probabilities of tokens',
  user: 'whom the request is for',
  safety_identifier: 'a digest of whom the request is for',
  metadata: 'labels',
  service_tier: 'service tier',
  verbosity: 'verbosity',
  prompt_cache_key: 'what shares a cache',
  cache_control: 'what is to be kept in a cache',
  stored_state: 'what the provider keeps between requests',
  hint: 'hints of its own',
  special: 'options of its own that change the answer',
  unknown: 'members that are not known'
} as const

/** Features of answers, with the words that describe them in the table of translations. */
export const answerFeatures = {
  text: 'text',
  refusal: 'refusals, told from text',
  reasoning: 'thoughts',
  reasoning_proof: 'signed or encrypted thoughts',
  tool_calls: 'calls',
  custom_tool_calls: 'calls with free text',
  image: 'pictures',
  audio: 'sound',
  citations: 'addresses of sources',
  logprobs: 'probabilities of tokens',
  candidates: 'several answers',
  stop_sequence: 'which stop sequence it was',
  pause: 'pauses of tools that the provider runs',
  server_tools: 'what tools did that the provider runs',
  cached_tokens: 'tokens read from a cache',
  cache_write_tokens: 'tokens written to a cache',
  reasoning_tokens: 'tokens of thoughts'
} as const

export type RequestFeature = keyof typeof requestFeatures
export type AnswerFeature = keyof typeof answerFeatures

/**
 * What translation does with a feature. `carried`: it means the same in the other protocol. `adapted`: it is expressed
 * in another way, which the text describes. `dropped`: it is left out, and the client is told. `refused`: without it
 * the request would mean something else.
 */
export type Treatment = 'carried' | 'dropped' | 'refused' | { readonly adapted: string }

/** What channels of a protocol do with the features of clients, and what they answer with. */
export interface ChannelCapabilities {
  /** What its channels do with each feature that a client of another protocol asks for. */
  readonly takes: Readonly<Record<RequestFeature, Treatment>>
  /** The features that its channels' answers may have. */
  readonly gives: readonly AnswerFeature[]
}

/** What a protocol can express, and what it does with the features of others. */
export interface Capabilities extends ChannelCapabilities {
  /** The features that its clients can ask for, and the member for each. They cannot ask for any other. */
  readonly asks: Readonly<Partial<Record<RequestFeature, string>>>
  /** What its clients see of each feature in another protocol's answers. */
  readonly shows: Readonly<Record<AnswerFeature, Exclude<Treatment, 'refused'>>>
}
