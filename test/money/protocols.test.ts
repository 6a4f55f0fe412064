// The same answer costs the same, and shows the same tokens, whichever protocol its client speaks and whichever its
// channel does.
import fc from 'fast-check'
import t from 'tap'
import { gateway } from '../kit/gateway.ts'
import { nanoCost } from '../kit/oracle.ts'
import { readEvents } from '../kit/sse.ts'

const long = process.env['SLUICE_LONG'] === '1'
t.setTimeout(long ? 1_800_000 : 600_000)

const price = { input: '1.25', cached_input: '0.125', cache_write: '1.5625', output: '10' }

/** What an answer took: classes without overlap, of which `reasoning` is part of the output. */
interface Tokens {
  input: number
  cached_input: number
  cache_write: number
  output: number
  reasoning: number
}

type Json = Record<string, any>

/** Channels by what they speak, and what their upstream calls these tokens. */
const channels: Readonly<Record<string, { settings: object; usage(tokens: Tokens): Json }>> = {
  chat: {
    settings: { endpoints: ['chat'] },
    usage: ({ input, cached_input: cached, cache_write: written, output, reasoning }) => ({
      prompt_tokens: input + cached + written,
      completion_tokens: output,
      total_tokens: input + cached + written + output,
      prompt_tokens_details: { cached_tokens: cached, cache_write_tokens: written },
      completion_tokens_details: { reasoning_tokens: reasoning }
    })
  },
  responses: {
    settings: { endpoints: ['responses'] },
    usage: ({ input, cached_input: cached, cache_write: written, output, reasoning }) => ({
      input_tokens: input + cached + written,
      output_tokens: output,
      total_tokens: input + cached + written + output,
      input_tokens_details: { cached_tokens: cached, cache_write_tokens: written },
      output_tokens_details: { reasoning_tokens: reasoning }
    })
  },
  anthropic: {
    settings: { simulates: 'anthropic' },
    usage: ({ input, cached_input: cached, cache_write: written, output, reasoning }) => ({
      input_tokens: input,
      cache_read_input_tokens: cached,
      cache_creation_input_tokens: written,
      output_tokens: output,
      output_tokens_details: { thinking_tokens: reasoning }
    })
  },
  gemini: {
    settings: { simulates: 'gemini' },
    usage: ({ input, cached_input: cached, output, reasoning }) => ({
      promptTokenCount: input + cached,
      cachedContentTokenCount: cached,
      candidatesTokenCount: output - reasoning,
      thoughtsTokenCount: reasoning,
      totalTokenCount: input + cached + output
    })
  }
}

/** Tokens as a client adds them up: `input` is the whole prompt. */
interface Shown {
  input: number
  cached: number
  output: number
}

/**
 * Clients by their protocol: how they ask, and what they make of the usage that stands in an answer or in its events.
 */
const clients: Readonly<
  Record<
    string,
    {
      ask(model: string, text: string, stream: boolean): { path: string; body: Json }
      find(answer: Json): Json | undefined
      read(usage: Json): Shown
    }
  >
> = {
  'openai-chat': {
    ask: (model, content, stream) => ({
      path: '/v1/chat/completions',
      body: {
        model,
        messages: [{ role: 'user', content }],
        max_completion_tokens: 50,
        stream,
        ...(stream && { stream_options: { include_usage: true } })
      }
    }),
    find: ({ usage }) => usage,
    read: (usage) => ({
      input: usage['prompt_tokens'],
      cached: usage['prompt_tokens_details'].cached_tokens,
      output: usage['completion_tokens']
    })
  },
  'openai-responses': {
    ask: (model, input, stream) => ({ path: '/v1/responses', body: { model, input, max_output_tokens: 50, stream } }),
    find: ({ usage, response }) => usage ?? response?.usage,
    read: (usage) => ({
      input: usage['input_tokens'],
      cached: usage['input_tokens_details'].cached_tokens,
      output: usage['output_tokens']
    })
  },
  anthropic: {
    ask: (model, content, stream) => ({
      path: '/v1/messages',
      body: { model, max_tokens: 50, messages: [{ role: 'user', content }], stream }
    }),
    find: ({ usage, message }) => usage ?? message?.usage,
    read: (usage) => ({
      input: usage['input_tokens'] + usage['cache_read_input_tokens'] + usage['cache_creation_input_tokens'],
      cached: usage['cache_read_input_tokens'],
      output: usage['output_tokens']
    })
  },
  gemini: {
    ask: (model, text, stream) => ({
      path: `/v1beta/models/${model}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
      body: { contents: [{ parts: [{ text }] }], generationConfig: { maxOutputTokens: 50 } }
    }),
    find: ({ usageMetadata }) => usageMetadata,
    read: (usage) => ({
      input: usage['promptTokenCount'],
      cached: usage['cachedContentTokenCount'] ?? 0,
      output: (usage['candidatesTokenCount'] ?? 0) + (usage['thoughtsTokenCount'] ?? 0)
    })
  }
}

const tokens: fc.Arbitrary<Tokens> = fc
  .record({
    input: fc.nat(9999),
    cached_input: fc.nat(9999),
    cache_write: fc.nat(999),
    output: fc.integer({ min: 1, max: 9999 }),
    share: fc.nat(100)
  })
  .map(({ share, ...classes }) => ({ ...classes, reasoning: Math.floor((classes.output * share) / 100) }))

t.test(
  'usage and price are the same for clients of every protocol, by way of every channel, whole and streamed',
  async (t) => {
    const local = await gateway(t, {
      channels: Object.fromEntries(
        Object.entries(channels).map(([name, { settings }]) => [
          name,
          { protocol: 'simulator', ...settings, models: { [`via-${name}`]: 'demo' } }
        ])
      ),
      models: Object.fromEntries(Object.keys(channels).map((name) => [`via-${name}`, { price }]))
    })
    for (const [name, { usage }] of Object.entries(channels)) {
      for (const drawn of fc.sample(tokens, {
        numRuns: long ? 100 : 3,
        seed: Number(process.env['SLUICE_SEED'] ?? 20_261_122)
      })) {
        // Gemini has no word for what was written to a cache.
        const took = name === 'gemini' ? { ...drawn, cache_write: 0 } : drawn
        const text = `Tell me. [[simulator ${JSON.stringify({ text: 'All well.', usage: usage(took) })}]]`
        const cost = nanoCost({ ...took }, price)
        const shown: Shown = {
          input: took.input + took.cached_input + took.cache_write,
          cached: took.cached_input,
          output: took.output
        }
        for (const [protocol, { ask, find, read }] of Object.entries(clients)) {
          for (const stream of [false, true]) {
            const way = `${protocol} by way of ${name}, ${stream ? 'streamed' : 'whole'}`
            const reply = await local.ask(ask(`via-${name}`, text, stream))
            const answers = stream
              ? readEvents(reply.body).flatMap(({ data }) => (data === '[DONE]' ? [] : [JSON.parse(data) as Json]))
              : [reply.json() as Json]
            const told = Object.assign({}, ...answers.map((answer) => find(answer) ?? {})) as Json
            t.same(read(told), shown, `${way}: what its client sees`)
            const record = await local.record(reply)
            t.match(
              record,
              {
                client_protocol: protocol,
                channel: name,
                usage: took,
                usage_source: 'upstream',
                cost_nano: String(cost)
              },
              way
            )
          }
        }
      }
    }
  }
)
