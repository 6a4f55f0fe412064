// What Gemini's generateContent can say, and what it makes of what other protocols say.
import type { Capabilities } from '../canonical/features.ts'

/** Hints that only this protocol has, at the top of a request. */
export const hints = ['safetySettings', 'labels', 'serviceTier', 'store'] as const

/** What changes the answer and no other protocol can say. */
export const specials = ['cachedContent', 'continuationToken'] as const

/** Hints inside of generationConfig. */
export const configHints = ['speechConfig', 'imageConfig', 'mediaResolution', 'audioTranscriptionConfig', 'enableEnhancedCivicAnswers'] as const

export const capabilities: Capabilities = {
  asks: {
    system: 'systemInstruction', image: 'contents.parts.inlineData', image_url: 'contents.parts.fileData', document: 'contents.parts.inlineData',
    text_document: 'contents.parts.inlineData', document_url: 'contents.parts.fileData', audio: 'contents.parts.inlineData', video: 'contents.parts',
    stored_file: 'contents.parts.fileData', tools: 'tools.functionDeclarations', server_tool: 'tools', tool_choice: 'toolConfig.functionCallingConfig',
    allowed_tools: 'toolConfig.functionCallingConfig.allowedFunctionNames', tool_result_media: 'contents.parts.functionResponse.parts',
    tool_result_error: 'contents.parts.functionResponse.response', image_replay: 'contents.parts.inlineData',
    reasoning_replay: 'contents.parts.thought', reasoning_proof: 'contents.parts.thoughtSignature',
    json_object: 'generationConfig.responseMimeType', json_schema: 'generationConfig.responseSchema', reasoning_effort: 'generationConfig.thinkingConfig.thinkingLevel',
    reasoning_budget: 'generationConfig.thinkingConfig.thinkingBudget', reasoning_visible: 'generationConfig.thinkingConfig.includeThoughts',
    max_output_tokens: 'generationConfig.maxOutputTokens', temperature: 'generationConfig.temperature', top_p: 'generationConfig.topP', top_k: 'generationConfig.topK',
    presence_penalty: 'generationConfig.presencePenalty', frequency_penalty: 'generationConfig.frequencyPenalty', seed: 'generationConfig.seed',
    stop: 'generationConfig.stopSequences', candidates: 'generationConfig.candidateCount', logprobs: 'generationConfig.responseLogprobs',
    hint: [...hints, ...configHints].join(', '), special: [...specials, 'generationConfig.responseModalities'].join(', '), unknown: 'anything else'
  },
  takes: {
    system: 'carried', system_later: { adapted: 'text of the user, in its place' }, message_name: 'dropped',
    image: 'carried', image_url: { adapted: 'fetched by the model where the channel says so, otherwise refused' }, image_detail: 'dropped', document: 'carried',
    text_document: { adapted: 'a text part' }, document_url: { adapted: 'fetched by the model where the channel says so, otherwise refused' },
    audio: 'carried', video: 'carried', stored_file: 'refused',
    tools: { adapted: 'the schema in the subset that is known' }, tool_strict: 'dropped', tool_namespace: { adapted: 'the group becomes part of the name' },
    custom_tool: { adapted: 'a function with one argument' }, custom_tool_grammar: 'refused', server_tool: 'refused',
    tool_choice: 'carried', allowed_tools: { adapted: 'only these are offered' }, parallel_tool_calls: 'dropped',
    tool_result_media: { adapted: 'a user turn after the results' }, tool_result_error: 'carried', image_replay: 'carried', refusal_replay: { adapted: 'text' },
    reasoning_replay: { adapted: 'what this provider signed; otherwise left out' }, reasoning_proof: { adapted: 'what this provider signed; otherwise left out' },
    json_object: 'carried', json_schema: 'carried', reasoning_effort: { adapted: 'a level, or a budget by its share of the longest answer' },
    reasoning_budget: { adapted: 'a budget, or a level by its share of the longest answer' }, reasoning_visible: 'carried',
    max_output_tokens: { adapted: 'what the model can give at most' }, temperature: 'carried', top_p: 'carried', top_k: 'carried', presence_penalty: 'carried', frequency_penalty: 'carried', seed: 'carried',
    stop: { adapted: 'up to five, more are refused' }, candidates: 'carried', logprobs: 'carried', user: 'dropped', safety_identifier: 'dropped', metadata: 'dropped',
    service_tier: 'dropped', verbosity: 'dropped', prompt_cache_key: 'dropped', stored_state: 'refused', hint: 'dropped', special: 'refused', unknown: 'dropped'
  },
  gives: [
    'text', 'refusal', 'reasoning', 'reasoning_proof', 'tool_calls', 'image', 'audio', 'citations', 'logprobs', 'candidates', 'server_tools',
    'cached_tokens', 'reasoning_tokens'
  ],
  shows: {
    text: 'carried', refusal: { adapted: 'text, and the finish reason SAFETY' }, reasoning: 'carried', reasoning_proof: { adapted: "another provider's is wrapped and comes back" },
    tool_calls: 'carried', custom_tool_calls: 'dropped', image: 'carried', audio: 'carried', citations: { adapted: 'as grounding' }, logprobs: 'carried', candidates: 'carried',
    stop_sequence: 'dropped', pause: { adapted: 'STOP' }, server_tools: 'dropped',
    cached_tokens: 'carried', cache_write_tokens: { adapted: 'part of the prompt' }, reasoning_tokens: 'carried'
  }
}
