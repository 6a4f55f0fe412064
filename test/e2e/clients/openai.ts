// Conversations of the openai library over chat completions and over Responses, in two major versions.
import OpenAI from 'openai'
import OpenAI6 from 'openai-6'
import { endedAs, longest, tool } from './library.ts'
import type { Address, Conversation, Library, Said } from './library.ts'

const ends = { stop: 'stop', tool_calls: 'calls', length: 'length' } as const
const tools: OpenAI.ChatCompletionTool[] = [
  { type: 'function', function: { name: tool.name, description: tool.description, parameters: tool.schema } }
]

class Chat implements Conversation {
  readonly #client: OpenAI
  readonly #model: string
  readonly #streamed: boolean
  readonly #history: OpenAI.ChatCompletionMessageParam[] = [{ role: 'system', content: 'Be brief.' }]

  constructor(client: OpenAI, model: string, streamed: boolean) {
    this.#client = client
    this.#model = model
    this.#streamed = streamed
  }

  ask(text: string): Promise<Said> {
    this.#history.push({ role: 'user', content: text })
    return this.#turn()
  }

  answer(results: readonly string[]): Promise<Said> {
    const said = this.#history.at(-1) as OpenAI.ChatCompletionMessage
    said.tool_calls!.forEach(({ id }, index) =>
      this.#history.push({ role: 'tool', tool_call_id: id, content: results[index]! })
    )
    return this.#turn()
  }

  async #turn(): Promise<Said> {
    const body = {
      model: this.#model,
      messages: this.#history,
      tools,
      max_completion_tokens: longest,
      reasoning_effort: 'low' as const
    }
    const { choices, usage, thoughts } = this.#streamed
      ? await this.#stream(body)
      : { ...(await this.#client.chat.completions.create(body)), thoughts: undefined }
    const { message, finish_reason: ended } = choices[0]!
    this.#history.push(message)
    const calls = (message.tool_calls ?? []) as OpenAI.ChatCompletionMessageFunctionToolCall[]
    return {
      text: message.content ?? '',
      thoughts: thoughts ?? (message as Thoughtful).reasoning_content,
      calls: calls.map(({ function: { name, arguments: input } }) => ({ name, input: JSON.parse(input) as unknown })),
      ended: endedAs(ended, ends),
      usage: {
        input: usage!.prompt_tokens,
        cached: usage!.prompt_tokens_details?.cached_tokens ?? 0,
        output: usage!.completion_tokens
      }
    }
  }

  /** The library puts text and calls together; of members that it does not know it keeps the last piece. */
  async #stream(
    body: OpenAI.ChatCompletionCreateParamsNonStreaming
  ): Promise<OpenAI.ChatCompletion & { thoughts: string }> {
    let thoughts = ''
    const stream = this.#client.chat.completions.stream({
      ...body,
      stream: true,
      stream_options: { include_usage: true }
    })
    stream.on(
      'chunk',
      ({ choices: [choice] }) => void (thoughts += (choice?.delta as Thoughtful | undefined)?.reasoning_content ?? '')
    )
    return { ...(await stream.finalChatCompletion()), thoughts }
  }
}

class Responses implements Conversation {
  readonly #client: OpenAI
  readonly #model: string
  readonly #streamed: boolean
  readonly #history: OpenAI.Responses.ResponseInputItem[] = []

  constructor(client: OpenAI, model: string, streamed: boolean) {
    this.#client = client
    this.#model = model
    this.#streamed = streamed
  }

  ask(text: string): Promise<Said> {
    this.#history.push({ role: 'user', content: text })
    return this.#turn()
  }

  answer(results: readonly string[]): Promise<Said> {
    const answered = this.#history.findLastIndex((item) => !('type' in item) || item.type !== 'function_call')
    const calls = this.#history.slice(answered + 1) as OpenAI.Responses.ResponseFunctionToolCall[]
    calls.forEach(({ call_id }, index) =>
      this.#history.push({ type: 'function_call_output', call_id, output: results[index]! })
    )
    return this.#turn()
  }

  async #turn(): Promise<Said> {
    const body = {
      model: this.#model,
      instructions: 'Be brief.',
      input: this.#history,
      max_output_tokens: longest,
      store: false,
      reasoning: { effort: 'low' as const, summary: 'auto' as const },
      include: ['reasoning.encrypted_content' as const],
      tools: [
        {
          type: 'function' as const,
          name: tool.name,
          description: tool.description,
          parameters: tool.schema,
          strict: false
        }
      ]
    }
    const {
      output,
      output_text: text,
      status,
      incomplete_details: why,
      usage
    } = this.#streamed
      ? await this.#client.responses.stream(body).finalResponse()
      : await this.#client.responses.create(body)
    this.#history.push(...(output as OpenAI.Responses.ResponseInputItem[]))
    const calls = (output as OpenAI.Responses.ResponseOutputItem[]).filter(
      (item): item is OpenAI.Responses.ResponseFunctionToolCall => item.type === 'function_call'
    )
    const ended = endedAs(status === 'incomplete' ? why?.reason : status, {
      completed: 'stop',
      max_output_tokens: 'length'
    })
    return {
      text,
      thoughts: output
        .map((item) => (item.type === 'reasoning' ? item.summary.map((part) => part.text).join('') : ''))
        .join(''),
      calls: calls.map(({ name, arguments: input }) => ({ name, input: JSON.parse(input) as unknown })),
      ended: ended === 'stop' && calls.length > 0 ? 'calls' : ended,
      usage: {
        input: usage!.input_tokens,
        cached: usage!.input_tokens_details.cached_tokens,
        output: usage!.output_tokens
      }
    }
  }
}

/** What several vendors add to messages. */
interface Thoughtful {
  reasoning_content?: string
}

/** The constructor of a major version; the older one has types of its own, which here differ in name alone. */
export type OpenAIConstructor = new (options: { baseURL: string; apiKey: string; maxRetries: number }) => OpenAI

/** Both major versions by name. */
export const openaiMajors: Readonly<Record<string, OpenAIConstructor>> = {
  'openai 7': OpenAI,
  'openai 6': OpenAI6 as unknown as OpenAIConstructor
}

export const openaiLibraries: readonly Library[] = Object.entries(openaiMajors).flatMap(([name, Constructor]) => {
  const client = ({ url, key }: Address): OpenAI =>
    new Constructor({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 })
  return [
    {
      name: `${name} chat`,
      protocol: 'openai-chat',
      open: (address: Address, streamed: boolean) => new Chat(client(address), address.model, streamed)
    },
    {
      name: `${name} responses`,
      protocol: 'openai-responses',
      open: (address: Address, streamed: boolean) => new Responses(client(address), address.model, streamed)
    }
  ]
})
