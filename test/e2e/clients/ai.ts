// Conversations of the AI SDK (`ai`), with its providers for three protocols.
import { createAnthropic } from '@ai-sdk/anthropic'
import { createGoogle } from '@ai-sdk/google'
import { createOpenAI } from '@ai-sdk/openai'
import { generateText, jsonSchema, streamText, tool as aTool } from 'ai'
import type { LanguageModel, ModelMessage, ToolCallPart, ToolSet } from 'ai'
import { endedAs, longest, tool } from './library.ts'
import type { Address, Conversation, Library, Said } from './library.ts'

const ends = { stop: 'stop', 'tool-calls': 'calls', length: 'length' } as const
const tools = {
  [tool.name]: aTool({ description: tool.description, inputSchema: jsonSchema<{ city: string }>(tool.schema) })
} as ToolSet
type Options = NonNullable<Parameters<typeof generateText>[0]['providerOptions']>

class Talk implements Conversation {
  readonly #model: LanguageModel
  readonly #options: Options
  readonly #streamed: boolean
  readonly #history: ModelMessage[] = []

  constructor(model: LanguageModel, options: Options, streamed: boolean) {
    this.#model = model
    this.#options = options
    this.#streamed = streamed
  }

  ask(text: string): Promise<Said> {
    this.#history.push({ role: 'user', content: text })
    return this.#turn()
  }

  answer(results: readonly string[]): Promise<Said> {
    const parts = this.#history.at(-1)!.content as ToolCallPart[]
    const content = parts
      .filter(({ type }) => type === 'tool-call')
      .map(({ toolCallId, toolName }, index) => ({
        type: 'tool-result' as const,
        toolCallId,
        toolName,
        output: { type: 'text' as const, value: results[index]! }
      }))
    this.#history.push({ role: 'tool', content })
    return this.#turn()
  }

  async #turn(): Promise<Said> {
    const request = {
      model: this.#model,
      instructions: 'Be brief.',
      messages: this.#history,
      tools,
      maxOutputTokens: longest,
      maxRetries: 0,
      providerOptions: this.#options,
      // It prints errors unless somebody takes them; the promises below are rejected with them all the same.
      onError: () => {}
    }
    const result = this.#streamed ? streamText(request) : await generateText(request)
    const { messages } = await result.response
    this.#history.push(...messages)
    const {
      inputTokens: input = 0,
      inputTokenDetails: { cacheReadTokens: cached = 0 },
      outputTokens: output = 0
    } = await result.usage
    return {
      text: await result.text,
      thoughts: await result.reasoningText,
      calls: (await result.toolCalls).map(({ toolName: name, input }) => ({ name, input: input as unknown })),
      ended: endedAs(await result.finishReason, ends),
      usage: { input, cached, output }
    }
  }
}

const thinking: Options = {
  openai: {
    reasoningEffort: 'low',
    reasoningSummary: 'auto',
    forceReasoning: true,
    systemMessageMode: 'developer',
    store: false
  },
  anthropic: { thinking: { type: 'enabled', budgetTokens: 1024 } },
  google: { thinkingConfig: { includeThoughts: true } }
}

export const aiLibraries: readonly Library[] = [
  {
    name: 'ai 7, @ai-sdk/openai chat',
    protocol: 'openai-chat',
    sees: false,
    open: ({ url, key, model }: Address, streamed: boolean) =>
      new Talk(createOpenAI({ baseURL: `${url}/v1`, apiKey: key }).chat(model), thinking, streamed)
  },
  {
    name: 'ai 7, @ai-sdk/openai responses',
    protocol: 'openai-responses',
    open: ({ url, key, model }: Address, streamed: boolean) =>
      new Talk(createOpenAI({ baseURL: `${url}/v1`, apiKey: key })(model), thinking, streamed)
  },
  {
    name: 'ai 7, @ai-sdk/anthropic',
    protocol: 'anthropic',
    open: ({ url, key, model }: Address, streamed: boolean) =>
      new Talk(createAnthropic({ baseURL: `${url}/v1`, apiKey: key })(model), thinking, streamed)
  },
  {
    name: 'ai 7, @ai-sdk/google',
    protocol: 'gemini',
    open: ({ url, key, model }: Address, streamed: boolean) =>
      new Talk(createGoogle({ baseURL: `${url}/v1beta`, apiKey: key })(model), thinking, streamed)
  }
]
