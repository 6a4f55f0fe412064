// What OpenAI's Responses can say, and what they make of what other protocols say.
import type { Capabilities } from '../canonical/features.ts'

/** Hints that only this protocol has. */
export const hints = [
  'max_tool_calls', 'prompt_cache_options', 'prompt_cache_retention', 'context_management', 'client_metadata', 'access_programs', 'image'
] as const

/** What changes the answer and no other protocol can say. */
export const specials = ['background', 'prompt', 'moderation'] as const

/** What the provider knows of earlier requests. */
export const stored = ['previous_response_id', 'conversation'] as const

export const capabilities: Capabilities = {
  asks: {
    system: 'instructions', system_later: 'input', image: 'input.content.image_url', image_url: 'input.content.image_url', image_detail: 'input.content.detail',
    document: 'input.content.file_data', text_document: 'input.content.file_data', document_url: 'input.content.file_url', stored_file: 'input.content.file_id',
    tools: 'tools', tool_strict: 'tools.strict', tool_namespace: 'tools', custom_tool: 'tools', custom_tool_grammar: 'tools.format', server_tool: 'tools',
    tool_choice: 'tool_choice', allowed_tools: 'tool_choice', parallel_tool_calls: 'parallel_tool_calls', tool_result_media: 'input.output',
    refusal_replay: 'input.content', reasoning_replay: 'input.summary', reasoning_proof: 'input.encrypted_content', json_object: 'text.format', json_schema: 'text.format',
    reasoning_effort: 'reasoning.effort', reasoning_visible: 'reasoning.summary', max_output_tokens: 'max_output_tokens', temperature: 'temperature', top_p: 'top_p',
    logprobs: 'top_logprobs', user: 'user', safety_identifier: 'safety_identifier', service_tier: 'service_tier', verbosity: 'text.verbosity',
    prompt_cache_key: 'prompt_cache_key', stored_state: [...stored, 'input'].join(', '), hint: ['store', 'include', 'truncation', ...hints].join(', '), special: specials.join(', '), unknown: 'anything else'
  },
  takes: {
    system: 'carried', system_later: 'carried', message_name: 'dropped', image: 'carried', image_url: 'carried', image_detail: 'carried', document: 'carried',
    text_document: { adapted: 'a text part' }, document_url: 'carried', audio: 'refused', video: 'refused', stored_file: 'refused',
    tools: 'carried', tool_strict: 'carried', tool_namespace: { adapted: 'the group becomes part of the name' }, custom_tool: 'carried', custom_tool_grammar: 'carried',
    server_tool: 'refused', tool_choice: 'carried', allowed_tools: 'carried', parallel_tool_calls: 'carried', tool_result_media: 'carried',
    tool_result_error: { adapted: 'the result begins with "Error: "' }, image_replay: { adapted: 'a user message after it' }, refusal_replay: { adapted: 'text' },
    reasoning_replay: { adapted: 'what this provider encrypted; otherwise left out' }, reasoning_proof: { adapted: 'what this provider encrypted; otherwise left out' },
    json_object: { adapted: 'with an instruction, where nobody says JSON' }, json_schema: 'carried', reasoning_effort: 'carried', reasoning_budget: { adapted: 'in words, by its share of the longest answer' },
    reasoning_visible: 'carried', max_output_tokens: { adapted: '16 at least, and at most what the model can give' }, temperature: 'carried', top_p: 'carried', top_k: 'dropped',
    presence_penalty: 'dropped', frequency_penalty: 'dropped', seed: 'dropped', stop: 'refused', candidates: 'refused', logprobs: 'carried',
    user: 'carried', safety_identifier: 'carried', metadata: 'carried', service_tier: 'carried', verbosity: 'carried', prompt_cache_key: 'carried',
    stored_state: 'refused', hint: 'dropped', special: 'refused', unknown: 'dropped'
  },
  gives: [
    'text', 'refusal', 'reasoning', 'reasoning_proof', 'tool_calls', 'custom_tool_calls', 'image', 'citations', 'logprobs', 'server_tools',
    'cached_tokens', 'cache_write_tokens', 'reasoning_tokens'
  ],
  shows: {
    text: 'carried', refusal: 'carried', reasoning: { adapted: 'a summary' }, reasoning_proof: { adapted: "another provider's is wrapped and comes back" },
    tool_calls: 'carried', custom_tool_calls: 'carried', image: { adapted: 'a call of image generation' }, audio: 'dropped', citations: 'carried', logprobs: 'carried',
    candidates: 'dropped', stop_sequence: 'dropped', pause: { adapted: 'completed' }, server_tools: 'dropped',
    cached_tokens: 'carried', cache_write_tokens: 'carried', reasoning_tokens: 'carried'
  }
}
