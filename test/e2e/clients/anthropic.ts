// Conversations of the @anthropic-ai/sdk library, in two major versions.
import Anthropic from '@anthropic-ai/sdk'
import Anthropic0 from 'anthropic-0'
import { endedAs, longest, tool } from './library.ts'
import type { Address, Conversation, Library, Said } from './library.ts'

const ends = { end_turn: 'stop', tool_use: 'calls', max_tokens: 'length' } as const
const tools: Anthropic.Tool[] = [{ name: tool.name, description: tool.description, input_schema: tool.schema }]

class Messages implements Conversation {
  readonly #client: Anthropic
  readonly #model: string
  readonly #streamed: boolean
  readonly #history: Anthropic.MessageParam[] = []

  constructor(client: Anthropic, model: string, streamed: boolean) {
    this.#client = client
    this.#model = model
    this.#streamed = streamed
  }

  ask(text: string): Promise<Said> {
    this.#history.push({ role: 'user', content: text })
    return this.#turn()
  }

  answer(results: readonly string[]): Promise<Said> {
    const blocks = this.#history.at(-1)!.content as Anthropic.ContentBlock[]
    const content = blocks
      .filter(({ type }) => type === 'tool_use')
      .map((block, index): Anthropic.ToolResultBlockParam => ({
        type: 'tool_result',
        tool_use_id: (block as Anthropic.ToolUseBlock).id,
        content: results[index]!
      }))
    this.#history.push({ role: 'user', content })
    return this.#turn()
  }

  async #turn(): Promise<Said> {
    const body: Anthropic.MessageCreateParamsNonStreaming = {
      model: this.#model,
      max_tokens: longest,
      system: 'Be brief.',
      messages: this.#history,
      tools,
      thinking: { type: 'enabled', budget_tokens: 1024 }
    }
    const {
      content,
      stop_reason: ended,
      usage
    } = this.#streamed
      ? await this.#client.messages.stream(body).finalMessage()
      : await this.#client.messages.create(body)
    this.#history.push({ role: 'assistant', content })
    const cached = usage.cache_read_input_tokens ?? 0
    return {
      text: content.map((block) => (block.type === 'text' ? block.text : '')).join(''),
      thoughts: content.map((block) => (block.type === 'thinking' ? block.thinking : '')).join(''),
      calls: content.flatMap((block) => (block.type === 'tool_use' ? [{ name: block.name, input: block.input }] : [])),
      ended: endedAs(ended, ends),
      usage: {
        input: usage.input_tokens + cached + (usage.cache_creation_input_tokens ?? 0),
        cached,
        output: usage.output_tokens
      }
    }
  }
}

/** The constructor of a major version; the older one has types of its own, which here differ in name alone. */
export type AnthropicConstructor = new (options: { baseURL: string; apiKey: string; maxRetries: number }) => Anthropic

/** Both major versions by name. */
export const anthropicMajors: Readonly<Record<string, AnthropicConstructor>> = {
  '@anthropic-ai/sdk 1': Anthropic,
  '@anthropic-ai/sdk 0': Anthropic0 as unknown as AnthropicConstructor
}

export const anthropicLibraries: readonly Library[] = Object.entries(anthropicMajors).map(([name, Constructor]) => ({
  name,
  protocol: 'anthropic',
  open: ({ url, key, model }: Address, streamed: boolean) =>
    new Messages(new Constructor({ baseURL: url, apiKey: key, maxRetries: 0 }), model, streamed)
}))
