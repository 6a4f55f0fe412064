// What chat completions can say, and what they make of what other protocols say.
import type { Capabilities } from '../canonical/features.ts'

/** Hints that only this protocol has. */
export const hints = [
  'logit_bias', 'prediction', 'store', 'prompt_cache_options', 'prompt_cache_retention'
] as const

/** What changes the answer and no other protocol can say. */
export const specials = ['audio', 'web_search_options', 'moderation', 'functions', 'function_call'] as const

export const capabilities: Capabilities = {
  asks: {
    system: 'messages', system_later: 'messages', message_name: 'messages.name',
    image: 'messages.content.image_url', image_url: 'messages.content.image_url', image_detail: 'messages.content.image_url.detail',
    document: 'messages.content.file', text_document: 'messages.content.file', audio: 'messages.content.input_audio', stored_file: 'messages.content.file.file_id',
    tools: 'tools', tool_strict: 'tools.function.strict', custom_tool: 'tools.custom', custom_tool_grammar: 'tools.custom.format',
    tool_choice: 'tool_choice', allowed_tools: 'tool_choice.allowed_tools', parallel_tool_calls: 'parallel_tool_calls', tool_result_media: 'messages.content',
    image_replay: 'messages.images', refusal_replay: 'messages.refusal', reasoning_replay: 'messages.reasoning_content', reasoning_proof: 'messages.tool_calls.extra_content',
    json_object: 'response_format', json_schema: 'response_format', reasoning_effort: 'reasoning_effort',
    max_output_tokens: 'max_completion_tokens', temperature: 'temperature', top_p: 'top_p', top_k: 'top_k',
    presence_penalty: 'presence_penalty', frequency_penalty: 'frequency_penalty', seed: 'seed', stop: 'stop', candidates: 'n', logprobs: 'logprobs',
    user: 'user', safety_identifier: 'safety_identifier', metadata: 'metadata', service_tier: 'service_tier', verbosity: 'verbosity',
    prompt_cache_key: 'prompt_cache_key', hint: hints.join(', '), special: ['modalities', ...specials].join(', '), unknown: 'anything else'
  },
  takes: {
    system: 'carried', system_later: 'carried', message_name: 'dropped',
    image: 'carried', image_url: 'carried', image_detail: 'carried', document: 'carried', text_document: { adapted: 'a text part' },
    document_url: 'refused', audio: { adapted: 'wav and mp3, others are refused' }, video: 'refused', stored_file: 'refused',
    tools: 'carried', tool_strict: 'carried', tool_namespace: { adapted: 'the group becomes part of the name' },
    custom_tool: { adapted: 'a function with one argument' }, custom_tool_grammar: 'refused', server_tool: 'refused',
    tool_choice: 'carried', allowed_tools: { adapted: 'only these are offered' }, parallel_tool_calls: 'carried',
    tool_result_media: { adapted: 'a user message after the results' }, tool_result_error: { adapted: 'the result begins with "Error: "' },
    image_replay: { adapted: 'a user message after it' }, refusal_replay: 'carried', reasoning_replay: { adapted: 'reasoning_content where the channel wants it, otherwise left out' }, reasoning_proof: 'dropped',
    json_object: { adapted: 'with an instruction, where nobody says JSON' }, json_schema: 'carried', reasoning_effort: 'carried', reasoning_budget: { adapted: 'in words, by its share of the longest answer' },
    reasoning_visible: { adapted: 'thoughts are hidden by the gateway' }, max_output_tokens: { adapted: 'what the model can give at most' }, temperature: 'carried', top_p: 'carried', top_k: 'dropped',
    presence_penalty: 'carried', frequency_penalty: 'carried', seed: 'carried', stop: { adapted: 'up to four, more are refused' },
    candidates: 'carried', logprobs: 'carried', user: 'carried', safety_identifier: 'carried', metadata: 'dropped',
    service_tier: 'carried', verbosity: 'carried', prompt_cache_key: 'carried', stored_state: 'refused', hint: 'dropped', special: 'refused', unknown: 'dropped'
  },
  gives: [
    'text', 'refusal', 'reasoning', 'tool_calls', 'custom_tool_calls', 'image', 'citations', 'logprobs', 'candidates',
    'stop_sequence', 'cached_tokens', 'cache_write_tokens', 'reasoning_tokens'
  ],
  shows: {
    text: 'carried', refusal: 'carried', reasoning: { adapted: 'reasoning_content' },
    reasoning_proof: { adapted: "Gemini's on calls in extra_content; what calls need beside is kept by the gateway" },
    tool_calls: 'carried', custom_tool_calls: 'carried', image: { adapted: 'images, as vendors have it' }, audio: 'dropped', citations: 'carried', logprobs: 'carried',
    candidates: 'carried', stop_sequence: 'dropped', pause: { adapted: 'stop' }, server_tools: 'dropped',
    cached_tokens: 'carried', cache_write_tokens: 'carried', reasoning_tokens: 'carried'
  }
}
