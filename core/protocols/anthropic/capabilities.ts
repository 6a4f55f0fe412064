// What Anthropic's Messages can say, and what they make of what other protocols say.
import type { Capabilities } from '../canonical/features.ts'

/** Hints that only this protocol has, at the top of a request. */
export const hints = [
  'cache_control', 'speed', 'inference_geo', 'diagnostics', 'context_management', 'compaction', 'billing_policy', 'fallbacks', 'fallback_credit_token',
  'user_profile_id', 'workspace_id'
] as const

/** What changes the answer and no other protocol can say. */
export const specials = ['container', 'mcp_servers', 'thread'] as const

export const capabilities: Capabilities = {
  asks: {
    system: 'system', system_later: 'messages', image: 'messages.content.source', image_url: 'messages.content.source',
    document: 'messages.content.source', text_document: 'messages.content.source', document_url: 'messages.content.source', stored_file: 'messages.content.source',
    tools: 'tools', tool_strict: 'tools.strict', server_tool: 'tools', tool_choice: 'tool_choice', parallel_tool_calls: 'tool_choice.disable_parallel_tool_use',
    tool_result_media: 'messages.content.content', tool_result_error: 'messages.content.is_error',
    reasoning_replay: 'messages.content.thinking', reasoning_proof: 'messages.content.thinking',
    json_schema: 'output_config.format', reasoning_effort: 'output_config.effort', reasoning_budget: 'thinking.budget_tokens', reasoning_visible: 'thinking.display',
    max_output_tokens: 'max_tokens', temperature: 'temperature', top_p: 'top_p', top_k: 'top_k', stop: 'stop_sequences',
    user: 'metadata.user_id', service_tier: 'service_tier', hint: [...hints, 'citations'].join(', '), special: specials.join(', '), unknown: 'anything else'
  },
  takes: {
    system: 'carried', system_later: { adapted: 'text of the user, in its place' }, message_name: 'dropped',
    image: 'carried', image_url: 'carried', image_detail: 'dropped', document: 'carried', text_document: 'carried', document_url: 'carried',
    audio: 'refused', video: 'refused', stored_file: 'refused',
    tools: 'carried', tool_strict: { adapted: 'the schema is closed' }, tool_namespace: { adapted: 'the group becomes part of the name' },
    custom_tool: { adapted: 'a tool with one argument' }, custom_tool_grammar: 'refused', server_tool: 'refused',
    tool_choice: 'carried', allowed_tools: { adapted: 'only these are offered' }, parallel_tool_calls: 'carried',
    tool_result_media: 'carried', tool_result_error: 'carried', image_replay: { adapted: 'a user message after it' }, refusal_replay: { adapted: 'text' },
    reasoning_replay: { adapted: 'what this provider signed; otherwise left out' }, reasoning_proof: { adapted: 'what this provider signed; otherwise left out' },
    json_object: { adapted: 'an instruction' }, json_schema: { adapted: 'the schema is closed, limits become descriptions; or a tool' },
    reasoning_effort: { adapted: 'effort, or a budget by its share of the longest answer' }, reasoning_budget: { adapted: 'a budget, or effort by its share of the longest answer' },
    reasoning_visible: 'carried', max_output_tokens: { adapted: 'the longest answer of the model without one, and at most' },
    temperature: { adapted: '1 at most; left out where the model thinks or does not take it' }, top_p: { adapted: 'left out beside a temperature, and where the model thinks' },
    top_k: { adapted: 'left out where the model thinks' }, presence_penalty: 'dropped', frequency_penalty: 'dropped', seed: 'dropped',
    stop: { adapted: 'sequences of white space are left out' }, candidates: 'refused', logprobs: 'refused', user: 'carried',
    safety_identifier: { adapted: 'the user, if there is none' }, metadata: 'dropped', service_tier: { adapted: 'default as standard_only, others are left out' },
    verbosity: 'dropped', prompt_cache_key: 'dropped', stored_state: 'refused', hint: 'dropped', special: 'refused', unknown: 'dropped'
  },
  gives: [
    'text', 'refusal', 'reasoning', 'reasoning_proof', 'tool_calls', 'citations', 'stop_sequence', 'pause', 'server_tools',
    'cached_tokens', 'cache_write_tokens', 'reasoning_tokens'
  ],
  shows: {
    text: 'carried', refusal: { adapted: 'text, and the stop reason refusal' }, reasoning: 'carried', reasoning_proof: { adapted: "another provider's is wrapped and comes back" },
    tool_calls: 'carried', custom_tool_calls: 'dropped', image: 'dropped', audio: 'dropped', citations: { adapted: 'those with an address' }, logprobs: 'dropped',
    candidates: 'dropped', stop_sequence: 'carried', pause: 'carried', server_tools: 'dropped',
    cached_tokens: 'carried', cache_write_tokens: 'carried', reasoning_tokens: 'carried'
  }
}
