// Conversations of LangChain's chat models for two protocols.
import { ChatAnthropic } from '@langchain/anthropic'
import { HumanMessage, SystemMessage, ToolMessage } from '@langchain/core/messages'
import type { AIMessage, AIMessageChunk, BaseMessage, UsageMetadata } from '@langchain/core/messages'
import type { Runnable } from '@langchain/core/runnables'
import { ChatOpenAI } from '@langchain/openai'
import { endedAs, longest, tool } from './library.ts'
import type { Address, Conversation, Library, Said } from './library.ts'

type Model = Runnable<BaseMessage[], AIMessageChunk>

const ends = {
  stop: 'stop',
  end_turn: 'stop',
  tool_calls: 'calls',
  tool_use: 'calls',
  length: 'length',
  max_tokens: 'length',
  completed: 'stop',
  max_output_tokens: 'length'
} as const

class Chain implements Conversation {
  readonly #model: Model
  readonly #streamed: boolean
  readonly #history: BaseMessage[] = [new SystemMessage('Be brief.')]

  constructor(model: Model, streamed: boolean) {
    this.#model = model
    this.#streamed = streamed
  }

  ask(text: string): Promise<Said> {
    this.#history.push(new HumanMessage(text))
    return this.#turn()
  }

  answer(results: readonly string[]): Promise<Said> {
    const { tool_calls: calls = [] } = this.#history.at(-1) as AIMessage
    calls.forEach(({ id }, index) =>
      this.#history.push(new ToolMessage({ tool_call_id: id!, content: results[index]! }))
    )
    return this.#turn()
  }

  async #turn(): Promise<Said> {
    const said = this.#streamed ? await this.#stream() : await this.#model.invoke(this.#history)
    this.#history.push(said)
    const usage = said.usage_metadata as unknown as UsageMetadata
    const {
      finish_reason: ofChat,
      stop_reason: ofMessages,
      status,
      incomplete_details: why
    } = said.response_metadata as Record<string, string> & { incomplete_details?: { reason: string } }
    const ofResponses = why?.reason ?? (said.tool_calls?.length ? 'tool_use' : status)
    const additional = said.additional_kwargs as Record<string, string>
    const ofDelta = additional['stop_reason']
    const thoughts = said.contentBlocks
      .map((block) => (block.type === 'reasoning' ? (block.reasoning as string) : ''))
      .join('')
    return {
      text: said.text,
      thoughts: thoughts || additional['reasoning_content'],
      calls: (said.tool_calls ?? []).map(({ name, args }) => ({ name, input: args as unknown })),
      ended: endedAs(ofChat ?? ofMessages ?? ofDelta ?? ofResponses, ends),
      usage: {
        input: usage.input_tokens,
        cached: usage.input_token_details?.cache_read ?? 0,
        output: usage.output_tokens
      }
    }
  }

  async #stream(): Promise<AIMessageChunk> {
    let whole: AIMessageChunk | undefined
    for await (const chunk of await this.#model.stream(this.#history)) whole = whole?.concat(chunk) ?? chunk
    return whole!
  }
}

const toolOfChat = {
  type: 'function' as const,
  function: { name: tool.name, description: tool.description, parameters: tool.schema }
}
const toolOfMessages = { name: tool.name, description: tool.description, input_schema: tool.schema }

export const langchainLibraries: readonly Library[] = [
  {
    name: '@langchain/openai 1 chat',
    protocol: 'openai-chat',
    open: ({ url, key, model }: Address, streamed: boolean) =>
      new Chain(
        new ChatOpenAI({
          model,
          apiKey: key,
          maxTokens: longest,
          maxRetries: 0,
          modelKwargs: { reasoning_effort: 'low' },
          configuration: { baseURL: `${url}/v1` }
        }).bindTools([toolOfChat]) as unknown as Model,
        streamed
      )
  },
  {
    name: '@langchain/openai 1 responses',
    protocol: 'openai-responses',
    open: ({ url, key, model }: Address, streamed: boolean) =>
      new Chain(
        new ChatOpenAI({
          model,
          apiKey: key,
          useResponsesApi: true,
          zdrEnabled: true,
          maxTokens: longest,
          maxRetries: 0,
          modelKwargs: { reasoning: { effort: 'low', summary: 'auto' } },
          configuration: { baseURL: `${url}/v1` }
        }).bindTools([toolOfChat], { include: ['reasoning.encrypted_content'] }) as unknown as Model,
        streamed
      )
  },
  {
    // It adds the tokens of an opening and of an end, which has them all, and of input it takes those of the opening
    // alone.
    name: '@langchain/anthropic 1',
    protocol: 'anthropic',
    sums: false,
    open: ({ url, key, model }: Address, streamed: boolean) =>
      new Chain(
        new ChatAnthropic({
          model,
          apiKey: key,
          anthropicApiUrl: url,
          maxTokens: longest,
          maxRetries: 0,
          thinking: { type: 'enabled', budget_tokens: 1024 }
        }).bindTools([toolOfMessages]) as unknown as Model,
        streamed
      )
  }
]
