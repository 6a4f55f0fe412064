// What makes a client use a key: for curl, the vendors' libraries, and coding agents.

/** What a snippet is made of. */
export interface Given {
  /** The address of the gateway for clients, without a slash at its end. */
  readonly base: string
  readonly key: string
  readonly model: string
}

/** A snippet, and where it goes. */
export interface Recipe {
  readonly title: string
  text(given: Given): string
}

/** All snippets. docs/CLIENTS.md has the same, and says more. */
export const recipes: readonly Recipe[] = [
  {
    title: 'curl',
    text: ({ base, key, model }) => `curl ${base}/v1/chat/completions \\
  -H "Authorization: Bearer ${key}" -H "Content-Type: application/json" \\
  -d '{"model": "${model}", "messages": [{"role": "user", "content": "Hello"}]}'`
  },
  {
    title: 'OpenAI, Python',
    text: ({ base, key, model }) => `from openai import OpenAI

client = OpenAI(base_url="${base}/v1", api_key="${key}")
print(client.chat.completions.create(model="${model}", messages=[{"role": "user", "content": "Hello"}]))`
  },
  {
    title: 'OpenAI, TypeScript',
    text: ({ base, key, model }) => `import OpenAI from 'openai'

const client = new OpenAI({ baseURL: '${base}/v1', apiKey: '${key}' })
console.log(await client.chat.completions.create({ model: '${model}', messages: [{ role: 'user', content: 'Hello' }] }))`
  },
  {
    title: 'Anthropic, TypeScript',
    text: ({ base, key, model }) => `import Anthropic from '@anthropic-ai/sdk'

const client = new Anthropic({ baseURL: '${base}', apiKey: '${key}' })
console.log(await client.messages.create({ model: '${model}', max_tokens: 256, messages: [{ role: 'user', content: 'Hello' }] }))`
  },
  {
    title: 'Google, TypeScript',
    text: ({ base, key, model }) => `import { GoogleGenAI } from '@google/genai'

const client = new GoogleGenAI({ httpOptions: { baseUrl: '${base}' }, apiKey: '${key}' })
console.log((await client.models.generateContent({ model: '${model}', contents: 'Hello' })).text)`
  },
  {
    title: 'Claude Code',
    text: ({ base, key, model }) => `export ANTHROPIC_BASE_URL=${base} ANTHROPIC_API_KEY=${key}
export ANTHROPIC_MODEL=${model} ANTHROPIC_SMALL_FAST_MODEL=${model} CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1
claude`
  },
  {
    title: 'Codex',
    text: ({ base, key, model }) => `# ~/.codex/config.toml; and in the shell: export SLUICE_KEY=${key}
model = "${model}"
model_provider = "sluice"
web_search = "disabled"
features = { plugins = false, apps = false }
model_providers.sluice = { name = "Sluice", base_url = "${base}/v1", env_key = "SLUICE_KEY", wire_api = "responses" }`
  },
  {
    title: 'Gemini CLI',
    text: ({ base, key, model }) => `export GOOGLE_GEMINI_BASE_URL=${base} GEMINI_API_KEY=${key}
gemini -m ${model}`
  },
  {
    title: 'Qwen Code',
    text: ({ base, key, model }) => `export OPENAI_BASE_URL=${base}/v1 OPENAI_API_KEY=${key} OPENAI_MODEL=${model}
qwen`
  },
  {
    title: 'opencode',
    text: ({ base, key, model }) =>
      JSON.stringify(
        {
          model: `sluice/${model}`,
          small_model: `sluice/${model}`,
          provider: {
            sluice: {
              npm: '@ai-sdk/openai-compatible',
              models: { [model]: {} },
              options: { baseURL: `${base}/v1`, apiKey: key }
            }
          }
        },
        null,
        2
      )
  }
]
