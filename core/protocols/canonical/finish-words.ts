// The finish reasons of each vendor, what each means, and where it is documented.
import type { Finish } from './answer.ts'

/** A finish reason, or `failed`: the upstream gave up, which the client sees as an error. */
export type FinishFate = Finish['reason'] | 'failed'

/** The words of one vendor, as it writes them. */
export interface FinishWords {
  readonly vendor: string
  readonly source: string
  readonly words: Readonly<Record<string, FinishFate>>
}

export const anthropicWords: readonly FinishWords[] = [
  {
    vendor: 'Anthropic',
    source: 'https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons',
    words: {
      end_turn: 'stop',
      stop_sequence: 'sequence',
      tool_use: 'tool_calls',
      max_tokens: 'length',
      model_context_window_exceeded: 'length',
      refusal: 'content_filter',
      pause_turn: 'pause',
      compaction: 'pause'
    }
  }
]

export const bedrockWords: readonly FinishWords[] = [
  {
    vendor: 'Amazon Bedrock',
    source: 'https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html',
    words: {
      end_turn: 'stop',
      stop_sequence: 'sequence',
      tool_use: 'tool_calls',
      max_tokens: 'length',
      model_context_window_exceeded: 'length',
      guardrail_intervened: 'content_filter',
      content_filtered: 'content_filter',
      malformed_model_output: 'failed',
      malformed_tool_use: 'failed'
    }
  }
]

export const geminiWords: readonly FinishWords[] = [
  {
    vendor: 'Gemini',
    source: 'https://ai.google.dev/api/generate-content#FinishReason',
    words: {
      STOP: 'stop',
      MAX_TOKENS: 'length',
      CONTINUATION: 'length',
      SAFETY: 'content_filter',
      RECITATION: 'content_filter',
      LANGUAGE: 'content_filter',
      BLOCKLIST: 'content_filter',
      PROHIBITED_CONTENT: 'content_filter',
      SPII: 'content_filter',
      IMAGE_SAFETY: 'content_filter',
      IMAGE_PROHIBITED_CONTENT: 'content_filter',
      IMAGE_RECITATION: 'content_filter',
      OTHER: 'other',
      IMAGE_OTHER: 'other',
      NO_IMAGE: 'other',
      MALFORMED_FUNCTION_CALL: 'failed',
      MALFORMED_RESPONSE: 'failed',
      UNEXPECTED_TOOL_CALL: 'failed',
      TOO_MANY_TOOL_CALLS: 'failed',
      MISSING_THOUGHT_SIGNATURE: 'failed'
    }
  },
  {
    vendor: 'Vertex AI',
    source:
      'https://cloud.google.com/vertex-ai/generative-ai/docs/reference/rest/v1/GenerateContentResponse#FinishReason',
    words: { MODEL_ARMOR: 'content_filter' }
  }
]

/** Besides OpenAI's own words: compatible upstreams of other vendors pass on the words of their models. */
export const chatWords: readonly FinishWords[] = [
  {
    vendor: 'OpenAI',
    source: 'https://platform.openai.com/docs/api-reference/chat/object',
    words: {
      stop: 'stop',
      length: 'length',
      tool_calls: 'tool_calls',
      function_call: 'tool_calls',
      content_filter: 'content_filter'
    }
  },
  {
    vendor: 'DeepSeek',
    source: 'https://api-docs.deepseek.com/api/create-chat-completion',
    words: { insufficient_system_resource: 'failed' }
  },
  {
    vendor: 'Z.ai',
    source: 'https://docs.z.ai/api-reference/llm/chat-completion',
    words: { sensitive: 'content_filter', network_error: 'failed' }
  },
  {
    vendor: 'Mistral',
    source: 'https://docs.mistral.ai/api/endpoint/chat',
    words: { model_length: 'length', error: 'failed' }
  },
  { vendor: 'Together', source: 'https://docs.together.ai/reference/chat-completions-1', words: { eos: 'stop' } },
  {
    vendor: 'Text Generation Inference',
    source: 'https://huggingface.co/docs/text-generation-inference/reference/api_reference',
    words: { eos_token: 'stop' }
  },
  {
    vendor: 'vLLM, SGLang',
    source: 'https://docs.vllm.ai/en/latest/api/vllm/v1/engine/',
    words: { abort: 'failed' }
  },
  {
    vendor: 'Cohere',
    source: 'https://docs.cohere.com/reference/chat',
    words: { COMPLETE: 'stop', TOOL_CALL: 'tool_calls', TIMEOUT: 'failed' }
  },
  {
    vendor: 'watsonx',
    source: 'https://ibm.github.io/watsonx-ai-node-sdk/',
    words: { time_limit: 'other', cancelled: 'failed' }
  },
  ...anthropicWords,
  ...geminiWords
]

export const responsesWords: readonly FinishWords[] = [
  {
    vendor: 'OpenAI',
    source: 'https://platform.openai.com/docs/api-reference/responses/object',
    words: { max_output_tokens: 'length', content_filter: 'content_filter' }
  }
]
