// Conversations of the @google/genai library, over both versions of its paths.
import { GoogleGenAI } from '@google/genai'
import type { Content, GenerateContentResponse, Part } from '@google/genai'
import { endedAs, longest, tool } from './library.ts'
import type { Address, Conversation, Library, Said } from './library.ts'

const ends = { STOP: 'stop', MAX_TOKENS: 'length' } as const
const config = {
  systemInstruction: 'Be brief.',
  maxOutputTokens: longest,
  thinkingConfig: { includeThoughts: true },
  tools: [
    { functionDeclarations: [{ name: tool.name, description: tool.description, parametersJsonSchema: tool.schema }] }
  ]
}

class Contents implements Conversation {
  readonly #client: GoogleGenAI
  readonly #model: string
  readonly #streamed: boolean
  readonly #history: Content[] = []

  constructor(client: GoogleGenAI, model: string, streamed: boolean) {
    this.#client = client
    this.#model = model
    this.#streamed = streamed
  }

  ask(text: string): Promise<Said> {
    this.#history.push({ role: 'user', parts: [{ text }] })
    return this.#turn()
  }

  answer(results: readonly string[]): Promise<Said> {
    const calls = this.#history.at(-1)!.parts!.flatMap(({ functionCall }) => functionCall ?? [])
    const parts = calls.map(({ id, name }, index): Part => ({
      functionResponse: { ...(id !== undefined && { id }), name: name!, response: { output: results[index] } }
    }))
    this.#history.push({ role: 'user', parts })
    return this.#turn()
  }

  async #turn(): Promise<Said> {
    const request = { model: this.#model, contents: this.#history, config }
    const answers: GenerateContentResponse[] = []
    if (this.#streamed)
      for await (const answer of await this.#client.models.generateContentStream(request)) answers.push(answer)
    else answers.push(await this.#client.models.generateContent(request))
    const parts = answers.flatMap((answer) => answer.candidates?.[0]?.content?.parts ?? [])
    this.#history.push({ role: 'model', parts })
    const usage = answers.at(-1)!.usageMetadata!
    const calls = parts.flatMap(({ functionCall }) =>
      functionCall ? [{ name: functionCall.name!, input: functionCall.args }] : []
    )
    const ended = endedAs(answers.at(-1)!.candidates?.[0]?.finishReason, ends)
    return {
      text: parts.map(({ text, thought }) => (thought ? '' : (text ?? ''))).join(''),
      thoughts: parts.map(({ text, thought }) => (thought ? (text ?? '') : '')).join(''),
      calls,
      ended: ended === 'stop' && calls.length > 0 ? 'calls' : ended,
      usage: {
        input: usage.promptTokenCount!,
        cached: usage.cachedContentTokenCount ?? 0,
        output: (usage.candidatesTokenCount ?? 0) + (usage.thoughtsTokenCount ?? 0)
      }
    }
  }
}

export const googleLibraries: readonly Library[] = ['v1', 'v1beta'].map((apiVersion) => ({
  name: `@google/genai 3 ${apiVersion}`,
  protocol: 'gemini',
  open: ({ url, key, model }: Address, streamed: boolean) =>
    new Contents(new GoogleGenAI({ apiKey: key, httpOptions: { baseUrl: url, apiVersion } }), model, streamed)
}))
