// A request as code: for curl, and for the SDK of its protocol.
import type { Dialect } from './conversation.ts'
import type { Setup } from './draft.ts'

/** A piece of code. */
export interface Snippet {
  readonly name: string
  readonly title: string
  readonly text: string
}

/** The request in each language. `text` is its body as JSON. */
export function snippetsOf({ dialect, stream }: Setup, { path, text }: { path: string; text: string }): Snippet[] {
  return [
    { name: 'curl', title: 'curl', text: curl(path, text) },
    { name: 'python', title: `Python, ${sdk[dialect.name]}`, text: python[dialect.name](literal(text), stream, path) },
    { name: 'javascript', title: `JavaScript, ${sdk[dialect.name]}`, text: script[dialect.name](text, stream, path) }
  ]
}

const sdk: Readonly<Record<Dialect['name'], string>> = {
  chat: 'OpenAI',
  responses: 'OpenAI',
  messages: 'Anthropic',
  gemini: 'Google'
}

function curl(path: string, text: string): string {
  // In single quotes of a shell, only the quote itself has a meaning.
  const body = text.replaceAll("'", `'\\''`)
  return `curl -N "$SLUICE_URL${path}" \\
  -H "Authorization: Bearer $SLUICE_KEY" -H 'content-type: application/json' \\
  -d '${body}'`
}

/** JSON as Python writes it. Only what stands outside of texts differs. */
function literal(text: string): string {
  const words: Readonly<Record<string, string>> = { true: 'True', false: 'False', null: 'None' }
  return text.replace(/"(?:[^"\\]|\\.)*"|\b(?:true|false|null)\b/g, (piece) => words[piece] ?? piece)
}

type Write = (body: string, stream: boolean, path: string) => string

const openaiPython =
  (call: string): Write =>
  (body, stream) =>
    `import os
from openai import OpenAI

client = OpenAI(base_url=os.environ["SLUICE_URL"] + "/v1", api_key=os.environ["SLUICE_KEY"])
answer = client.${call}(**${body})
${stream ? 'for event in answer:\n    print(event)' : 'print(answer)'}`

const modelIn = (path: string): string => decodeURIComponent(/models\/([^:]+):/.exec(path)?.[1] ?? '')

const python: Readonly<Record<Dialect['name'], Write>> = {
  chat: openaiPython('chat.completions.create'),
  responses: openaiPython('responses.create'),
  messages: (body, stream) =>
    `import os
from anthropic import Anthropic

client = Anthropic(base_url=os.environ["SLUICE_URL"], api_key=os.environ["SLUICE_KEY"])
answer = client.messages.create(**${body})
${stream ? 'for event in answer:\n    print(event)' : 'print(answer)'}`,
  gemini: (body, stream, path) =>
    `import os
from google import genai

client = genai.Client(api_key=os.environ["SLUICE_KEY"], http_options={"base_url": os.environ["SLUICE_URL"]})
body = ${body}
config = {
    **body.get("generationConfig", {}),
    **{name: body[name] for name in ("systemInstruction", "tools") if name in body},
}
answer = client.models.generate_content${stream ? '_stream' : ''}(
    model=${JSON.stringify(modelIn(path))}, contents=body["contents"], config=config
)
${stream ? 'for event in answer:\n    print(event.text, end="")' : 'print(answer.text)'}`
}

const openaiScript =
  (call: string): Write =>
  (body, stream) =>
    `import OpenAI from 'openai'

const client = new OpenAI({ baseURL: process.env.SLUICE_URL + '/v1', apiKey: process.env.SLUICE_KEY })
const answer = await client.${call}(${body})
${stream ? 'for await (const event of answer) console.log(event)' : 'console.log(answer)'}`

const script: Readonly<Record<Dialect['name'], Write>> = {
  chat: openaiScript('chat.completions.create'),
  responses: openaiScript('responses.create'),
  messages: (body, stream) =>
    `import Anthropic from '@anthropic-ai/sdk'

const client = new Anthropic({ baseURL: process.env.SLUICE_URL, apiKey: process.env.SLUICE_KEY })
const answer = await client.messages.create(${body})
${stream ? 'for await (const event of answer) console.log(event)' : 'console.log(answer)'}`,
  gemini: (body, stream, path) =>
    `import { GoogleGenAI } from '@google/genai'

const client = new GoogleGenAI({ apiKey: process.env.SLUICE_KEY, httpOptions: { baseUrl: process.env.SLUICE_URL } })
const { contents, systemInstruction, tools, generationConfig } = ${body}
const answer = await client.models.generateContent${stream ? 'Stream' : ''}({
  model: ${JSON.stringify(modelIn(path))},
  contents,
  config: { ...generationConfig, systemInstruction, tools }
})
${stream ? 'for await (const event of answer) process.stdout.write(event.text)' : 'console.log(answer.text)'}`
}
