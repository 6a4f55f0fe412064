// The loops of client libraries that call a tool by themselves until the model is done.
import { createAnthropic } from '@ai-sdk/anthropic'
import { createGoogle } from '@ai-sdk/google'
import { createOpenAI } from '@ai-sdk/openai'
import { GoogleGenAI } from '@google/genai'
import type { CallableTool } from '@google/genai'
import {
  Agent,
  OpenAIChatCompletionsModel,
  OpenAIResponsesModel,
  run,
  setTracingDisabled,
  tool as agentTool
} from '@openai/agents'
import { isStepCount, jsonSchema, streamText, tool as aTool, generateText } from 'ai'
import type { LanguageModel, ToolSet } from 'ai'
import type OpenAI from 'openai'
import { z } from 'zod'
import { anthropicMajors } from './anthropic.ts'
import { longest, tool } from './library.ts'
import type { Address } from './library.ts'
import { openaiMajors } from './openai.ts'

/** What the tool does. */
export type Act = (input: { city: string }) => string

export interface Loop {
  name: string
  /** Asks, has the tool called as often as the model likes, and resolves with the model's last words. */
  run(address: Address, streamed: boolean, question: string, act: Act): Promise<string>
}

// It would send what it saw to its vendor.
setTracingDisabled(true)

const { name, description, schema } = tool
const parameters = { ...schema, additionalProperties: false as const }

const openaiLoops = Object.entries(openaiMajors).map(([major, Constructor]): Loop => ({
  name: `${major}, runTools`,
  async run({ url, key, model }, streamed, question, act) {
    const {
      chat: { completions }
    } = new Constructor({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 })
    const tools = [
      { type: 'function', function: { name, description, parameters, parse: JSON.parse, function: act } }
    ] as never
    const body = { model, messages: [{ role: 'user' as const, content: question }], tools }
    return (await (
      streamed ? completions.runTools({ ...body, stream: true }) : completions.runTools(body)
    ).finalContent())!
  }
}))

const anthropicLoops = Object.entries(anthropicMajors).map(([major, Constructor]): Loop => ({
  name: `${major}, toolRunner`,
  async run({ url, key, model }, stream, question, act) {
    const { beta } = new Constructor({ baseURL: url, apiKey: key, maxRetries: 0 })
    const tools = [
      {
        type: 'custom' as const,
        name,
        description,
        input_schema: schema,
        parse: (input: unknown) => input,
        run: (input: { city: string }) => act(input)
      }
    ] as never
    const runner = beta.messages.toolRunner({
      model,
      max_tokens: longest,
      messages: [{ role: 'user', content: question }],
      tools,
      stream
    })
    const { content } = await runner.runUntilDone()
    return content.map((block) => (block.type === 'text' ? block.text : '')).join('')
  }
}))

const googleLoop: Loop = {
  name: '@google/genai 3, callable tools',
  async run({ url, key, model }, streamed, question, act) {
    const callable: CallableTool = {
      tool: async () => ({ functionDeclarations: [{ name, description, parametersJsonSchema: schema }] }),
      callTool: async (calls) =>
        calls.map(({ id, name, args }) => ({
          functionResponse: {
            ...(id !== undefined && { id }),
            name: name!,
            response: { output: act(args as { city: string }) }
          }
        }))
    }
    const { models } = new GoogleGenAI({ apiKey: key, httpOptions: { baseUrl: url } })
    const request = { model, contents: question, config: { tools: [callable], maxOutputTokens: longest } }
    if (!streamed) return (await models.generateContent(request)).text!
    let text = ''
    for await (const { candidates } of await models.generateContentStream(request))
      text += candidates?.[0]?.content?.parts?.[0]?.text ?? ''
    return text
  }
}

const providers: Readonly<Record<string, (address: Address) => LanguageModel>> = {
  '@ai-sdk/openai chat': ({ url, key, model }) => createOpenAI({ baseURL: `${url}/v1`, apiKey: key }).chat(model),
  '@ai-sdk/openai responses': ({ url, key, model }) => createOpenAI({ baseURL: `${url}/v1`, apiKey: key })(model),
  '@ai-sdk/anthropic': ({ url, key, model }) => createAnthropic({ baseURL: `${url}/v1`, apiKey: key })(model),
  '@ai-sdk/google': ({ url, key, model }) => createGoogle({ baseURL: `${url}/v1beta`, apiKey: key })(model)
}

const aiLoops = Object.entries(providers).map(([provider, model]): Loop => ({
  name: `ai 7, ${provider}`,
  async run(address, streamed, question, act) {
    const tools = {
      [name]: aTool({ description, inputSchema: jsonSchema<{ city: string }>(schema), execute: act })
    } as ToolSet
    const request = {
      model: model(address),
      prompt: question,
      tools,
      maxOutputTokens: longest,
      maxRetries: 0,
      stopWhen: isStepCount(5),
      onError: () => {},
      // Without it, it refers to items that an upstream would have to keep.
      providerOptions: { openai: { store: false } }
    }
    return streamed ? streamText(request).text : (await generateText(request)).text
  }
}))

const agentsLoops = Object.entries({ chat: OpenAIChatCompletionsModel, responses: OpenAIResponsesModel }).map(
  ([over, Model]): Loop => ({
    name: `@openai/agents 0 over ${over}`,
    async run({ url, key, model }, stream, question, act) {
      const client: OpenAI = new openaiMajors['openai 7']!({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 })
      const agent = new Agent({
        name: 'Weather',
        instructions: 'Be brief.',
        model: new Model(client, model),
        modelSettings: { store: false },
        tools: [agentTool({ name, description, parameters: z.object({ city: z.string() }), execute: act })]
      })
      if (!stream) return (await run(agent, question)).finalOutput!
      const result = await run(agent, question, { stream: true })
      await result.completed
      return result.finalOutput!
    }
  })
)

export const loops: readonly Loop[] = [...openaiLoops, ...anthropicLoops, googleLoop, ...aiLoops, ...agentsLoops]
