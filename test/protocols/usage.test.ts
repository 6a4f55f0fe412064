// Every form in which upstreams report usage is read back exactly, and no number that is wrong becomes money.
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import t from 'tap'
import { Message } from '../../core/contract/message.ts'
import { protocols } from '../../core/protocols/index.ts'
import type { ReportedUsage } from '../../core/protocols/index.ts'
import { mergeAnthropicUsage, readAnthropicUsage, writeAnthropicUsage } from '../../core/protocols/usage/anthropic.ts'
import { readAnyUsage } from '../../core/protocols/usage/any.ts'
import { readSpeechUsage, readTranscriptionUsage } from '../../core/protocols/usage/audio.ts'
import { readGeminiEmbeddingUsage, readGeminiUsage, writeGeminiUsage } from '../../core/protocols/usage/gemini.ts'
import { readImagesUsage } from '../../core/protocols/usage/images.ts'
import { readChatUsage, readEmbeddingUsage, writeChatUsage } from '../../core/protocols/usage/openai-chat.ts'
import { readRealtimeUsage, readResponsesUsage, writeResponsesUsage } from '../../core/protocols/usage/openai-tokens.ts'
import { readRerankUsage } from '../../core/protocols/usage/rerank.ts'
import { readSeconds } from '../../core/protocols/usage/seconds.ts'
import { pricedClasses } from '../../core/money/classes.ts'
import type { Usage } from '../../core/money/usage.ts'

type Reader = (value: unknown) => ReportedUsage
type Classes = Partial<Usage>

const none = { input: 0, cached_input: 0, cache_write: 0, output: 0, reasoning: 0 }
const most = Number.MAX_SAFE_INTEGER

/** Reports as they come over the wire, and what they are. */
const examples: Readonly<
  Record<string, { read: Reader; cases: readonly [string, object, Classes | 'insane' | undefined][] }>
> = {
  chat: {
    read: readChatUsage,
    cases: [
      ['plain', { prompt_tokens: 9, completion_tokens: 2, total_tokens: 11 }, { input: 9, output: 2 }],
      [
        'pictures made',
        { prompt_tokens: 9, completion_tokens: 1300, completion_tokens_details: { image_tokens: 1290 } },
        { input: 9, output: 10, image_output: 1290 }
      ],
      [
        'cached audio is cached',
        { prompt_tokens: 100, completion_tokens: 1, prompt_tokens_details: { cached_tokens: 90, audio_tokens: 80 } },
        { cached_input: 90, audio_input: 10, output: 1 }
      ],
      [
        'written audio',
        {
          prompt_tokens: 100,
          completion_tokens: 1,
          prompt_tokens_details: { cache_write_tokens: 60, audio_tokens: 30, image_tokens: 30 }
        },
        { cache_write: 60, audio_input: 30, image_input: 10, output: 1 }
      ],
      [
        'more kinds than prompt',
        { prompt_tokens: 100, completion_tokens: 1, prompt_tokens_details: { audio_tokens: 60, image_tokens: 41 } },
        'insane'
      ],
      [
        'a total above the parts is charged: what they lack was thought',
        { prompt_tokens: 10, completion_tokens: 5, total_tokens: 99 },
        { input: 10, output: 89, reasoning: 84 }
      ],
      ['sides that no number holds', { prompt_tokens: most, completion_tokens: 1 }, 'insane'],
      [
        "a vendor's cached share",
        { prompt_tokens: 10, completion_tokens: 5, prompt_cache_hit_tokens: 4, prompt_cache_miss_tokens: 6 },
        { input: 6, cached_input: 4, output: 5 }
      ]
    ]
  },
  embeddings: {
    read: readEmbeddingUsage,
    cases: [
      ['both', { prompt_tokens: 8, total_tokens: 8 }, { input: 8 }],
      ['prompt alone', { prompt_tokens: 8 }, { input: 8 }],
      ['total alone', { total_tokens: 8 }, { input: 8 }],
      ['completion of zero', { prompt_tokens: 42, completion_tokens: 0, total_tokens: 42 }, { input: 42 }],
      ['nothing', { prompt_tokens: null }, undefined],
      ['total that is none', { total_tokens: '8' }, 'insane']
    ]
  },
  responses: {
    read: readResponsesUsage,
    cases: [
      [
        'full',
        {
          input_tokens: 10500,
          input_tokens_details: { cached_tokens: 9000, cache_write_tokens: 500 },
          output_tokens: 320,
          output_tokens_details: { reasoning_tokens: 300 },
          total_tokens: 10820
        },
        { input: 1000, cached_input: 9000, cache_write: 500, output: 320, reasoning: 300 }
      ],
      [
        'writes by lifetime',
        {
          input_tokens: 100,
          input_tokens_details: {
            cached_tokens: 0,
            cache_write_tokens_details: { ttl_30m_tokens: 30, ttl_12h_tokens: 20 }
          },
          output_tokens: 1
        },
        { input: 50, cache_write: 30, cache_write_long: 20, output: 1 }
      ],
      [
        'a compaction',
        {
          input_tokens: 139,
          input_tokens_details: { cached_tokens: 0 },
          output_tokens: 438,
          output_tokens_details: { reasoning_tokens: 64 },
          total_tokens: 577
        },
        { input: 139, output: 438, reasoning: 64 }
      ],
      ['from the total', { input_tokens: 9, total_tokens: 12 }, { input: 9, output: 3 }],
      ['a total below a side', { output_tokens: 9, total_tokens: 2 }, 'insane'],
      [
        'reasoning beside the output',
        { input_tokens: 9, output_tokens: 3, output_tokens_details: { reasoning_tokens: 30 }, total_tokens: 42 },
        { input: 9, output: 33, reasoning: 30 }
      ],
      ['one side', { input_tokens: 9 }, undefined],
      [
        'null details',
        { input_tokens: 9, input_tokens_details: null, output_tokens: 0, output_tokens_details: null },
        { input: 9 }
      ],
      [
        'cached above input',
        { input_tokens: 9, input_tokens_details: { cached_tokens: 10 }, output_tokens: 0 },
        'insane'
      ]
    ]
  },
  images: {
    read: readImagesUsage,
    cases: [
      [
        'in and out',
        {
          input_tokens: 250,
          input_tokens_details: { text_tokens: 50, image_tokens: 200 },
          output_tokens: 1000,
          output_tokens_details: { image_tokens: 980, text_tokens: 20 },
          total_tokens: 1250
        },
        { input: 50, image_input: 200, output: 20, image_output: 980 }
      ],
      [
        'output not itemised',
        {
          input_tokens: 50,
          input_tokens_details: { text_tokens: 50, image_tokens: 0 },
          output_tokens: 4160,
          total_tokens: 4210
        },
        { input: 50, image_output: 4160 }
      ],
      [
        'output text alone',
        { input_tokens: 50, output_tokens: 100, output_tokens_details: { text_tokens: 30 } },
        { input: 50, output: 30, image_output: 70 }
      ],
      [
        'details above output',
        { input_tokens: 50, output_tokens: 100, output_tokens_details: { text_tokens: 30, image_tokens: 71 } },
        'insane'
      ],
      [
        'text above output',
        { input_tokens: 50, output_tokens: 100, output_tokens_details: { text_tokens: 130 } },
        'insane'
      ],
      [
        'cached pictures',
        {
          input_tokens: 250,
          input_tokens_details: { text_tokens: 50, image_tokens: 200, cached_tokens: 60 },
          output_tokens: 0
        },
        { cached_input: 60, image_input: 190 }
      ]
    ]
  },
  speech: {
    read: readSpeechUsage,
    cases: [
      ['done', { input_tokens: 14, output_tokens: 101, total_tokens: 115 }, { input: 14, audio_output: 101 }],
      [
        'text told alone',
        { input_tokens: 14, output_tokens: 101, output_tokens_details: { text_tokens: 1 } },
        { input: 14, output: 1, audio_output: 100 }
      ]
    ]
  },
  transcription: {
    read: readTranscriptionUsage,
    cases: [
      [
        'tokens',
        {
          type: 'tokens',
          input_tokens: 14,
          input_token_details: { text_tokens: 4, audio_tokens: 10 },
          output_tokens: 101,
          total_tokens: 115
        },
        { input: 4, audio_input: 10, output: 101 }
      ],
      [
        'not itemised',
        { type: 'tokens', input_tokens: 14, output_tokens: 101, total_tokens: 115 },
        { audio_input: 14, output: 101 }
      ],
      [
        'text told alone',
        { type: 'tokens', input_tokens: 14, input_token_details: { text_tokens: 4 }, output_tokens: 101 },
        { input: 4, audio_input: 10, output: 101 }
      ],
      ['duration', { type: 'duration', seconds: 9 }, { second: 9 }],
      ['a part of a second', { type: 'duration', seconds: 8.47 }, { second: 9 }],
      ['silence', { type: 'duration', seconds: 0 }, { second: 0 }],
      ['without type', { seconds: 0.01 }, { second: 1 }],
      ['type decides', { type: 'duration', seconds: 3, input_tokens: 14, output_tokens: 1 }, { second: 3 }],
      ['tokens before seconds', { seconds: 3, input_tokens: 14, output_tokens: 1 }, { audio_input: 14, output: 1 }],
      ['negative', { type: 'duration', seconds: -0.5 }, 'insane'],
      ['text', { type: 'duration', seconds: '9' }, 'insane'],
      ['endless', { type: 'duration', seconds: 1e300 }, 'insane'],
      ['no duration', { type: 'duration' }, undefined]
    ]
  },
  realtime: {
    read: readRealtimeUsage,
    cases: [
      [
        'full',
        {
          total_tokens: 541,
          input_tokens: 521,
          output_tokens: 20,
          input_token_details: {
            text_tokens: 292,
            audio_tokens: 200,
            image_tokens: 29,
            cached_tokens: 150,
            cached_tokens_details: { text_tokens: 50, audio_tokens: 90, image_tokens: 10 }
          },
          output_token_details: { text_tokens: 5, audio_tokens: 15 }
        },
        { input: 242, cached_input: 150, audio_input: 110, image_input: 19, output: 5, audio_output: 15 }
      ],
      [
        'cached, nobody says what',
        {
          total_tokens: 120,
          input_tokens: 100,
          output_tokens: 20,
          input_token_details: { text_tokens: 20, audio_tokens: 80, cached_tokens: 64 },
          output_token_details: { text_tokens: 20, audio_tokens: 0 }
        },
        { cached_input: 64, audio_input: 36, output: 20 }
      ],
      [
        'more cached audio than audio',
        {
          input_tokens: 100,
          output_tokens: 2,
          input_token_details: {
            text_tokens: 90,
            audio_tokens: 10,
            cached_tokens: 20,
            cached_tokens_details: { audio_tokens: 11 }
          }
        },
        'insane'
      ],
      [
        'more cached audio than cached',
        {
          input_tokens: 100,
          output_tokens: 2,
          input_token_details: { audio_tokens: 100, cached_tokens: 20, cached_tokens_details: { audio_tokens: 21 } }
        },
        'insane'
      ],
      ['cancelled early', { total_tokens: 0, input_tokens: 0, output_tokens: 0 }, {}]
    ]
  },
  anthropic: {
    read: readAnthropicUsage,
    cases: [
      [
        'caches stand beside',
        {
          input_tokens: 10,
          cache_creation_input_tokens: 100,
          cache_read_input_tokens: 1000,
          output_tokens: 50,
          output_tokens_details: { thinking_tokens: 20 }
        },
        { input: 10, cache_write: 100, cached_input: 1000, output: 50, reasoning: 20 }
      ],
      [
        'all fields',
        {
          input_tokens: 9,
          cache_creation_input_tokens: 500,
          cache_read_input_tokens: 0,
          cache_creation: { ephemeral_5m_input_tokens: 100, ephemeral_1h_input_tokens: 400 },
          output_tokens: 2,
          output_tokens_details: null,
          server_tool_use: { web_search_requests: 3 },
          service_tier: 'standard'
        },
        { input: 9, cache_write: 100, cache_write_long: 400, output: 2, web_search: 3 }
      ],
      [
        'writes by lifetime alone',
        {
          input_tokens: 9,
          cache_creation: { ephemeral_5m_input_tokens: 100, ephemeral_1h_input_tokens: 400 },
          output_tokens: 2
        },
        { input: 9, cache_write: 100, cache_write_long: 400, output: 2 }
      ],
      [
        'nulls',
        {
          input_tokens: 9,
          cache_creation_input_tokens: null,
          cache_read_input_tokens: null,
          cache_creation: null,
          output_tokens: 2
        },
        { input: 9, output: 2 }
      ],
      [
        'a compaction counts too',
        {
          input_tokens: 45_000,
          output_tokens: 1234,
          iterations: [
            { type: 'compaction', input_tokens: 180_000, output_tokens: 3500, cache_read_input_tokens: 5 },
            { type: 'message', input_tokens: 45_000, output_tokens: 1234 }
          ]
        },
        { input: 225_000, cached_input: 5, output: 4734 }
      ],
      [
        'with what it writes to a cache',
        {
          input_tokens: 4,
          cache_creation_input_tokens: 3,
          output_tokens: 1,
          iterations: [
            {
              type: 'compaction',
              input_tokens: 10,
              output_tokens: 2,
              cache_creation_input_tokens: 70,
              cache_creation: { ephemeral_5m_input_tokens: 50, ephemeral_1h_input_tokens: 20 }
            }
          ]
        },
        { input: 14, cache_write: 53, cache_write_long: 20, output: 3 }
      ],
      ['a side is missing', { output_tokens: 12 }, undefined],
      [
        'more split than written',
        {
          input_tokens: 9,
          cache_creation_input_tokens: 5,
          cache_creation: { ephemeral_1h_input_tokens: 6 },
          output_tokens: 2
        },
        'insane'
      ],
      [
        'more thought than said',
        { input_tokens: 9, output_tokens: 2, output_tokens_details: { thinking_tokens: 3 } },
        'insane'
      ],
      ['a sum that no number holds', { input_tokens: most, cache_read_input_tokens: most, output_tokens: 2 }, 'insane']
    ]
  },
  gemini: {
    read: readGeminiUsage,
    cases: [
      ['plain', { promptTokenCount: 9, candidatesTokenCount: 2, totalTokenCount: 11 }, { input: 9, output: 2 }],
      [
        'thoughts and tools',
        {
          promptTokenCount: 100,
          candidatesTokenCount: 20,
          thoughtsTokenCount: 300,
          toolUsePromptTokenCount: 40,
          cachedContentTokenCount: 60,
          totalTokenCount: 460
        },
        { input: 80, cached_input: 60, output: 320, reasoning: 300 }
      ],
      [
        'kinds',
        {
          promptTokenCount: 1000,
          cachedContentTokenCount: 300,
          candidatesTokenCount: 1310,
          totalTokenCount: 2310,
          trafficType: 'ON_DEMAND',
          promptTokensDetails: [
            { modality: 'TEXT', tokenCount: 400 },
            { modality: 'AUDIO', tokenCount: 350 },
            { modality: 'IMAGE', tokenCount: 150 },
            { modality: 'VIDEO', tokenCount: 100 }
          ],
          cacheTokensDetails: [
            { modality: 'TEXT', tokenCount: 100 },
            { modality: 'AUDIO', tokenCount: 200 }
          ],
          candidatesTokensDetails: [
            { modality: 'IMAGE', tokenCount: 1290 },
            { modality: 'TEXT', tokenCount: 20 }
          ]
        },
        { input: 400, cached_input: 300, audio_input: 150, image_input: 150, output: 20, image_output: 1290 }
      ],
      [
        'thoughts among the candidates',
        { promptTokenCount: 10, candidatesTokenCount: 320, thoughtsTokenCount: 300, totalTokenCount: 330 },
        { input: 10, output: 320, reasoning: 300 }
      ],
      [
        'nothing but thoughts',
        { promptTokenCount: 10, thoughtsTokenCount: 300, totalTokenCount: 310 },
        { input: 10, output: 300, reasoning: 300 }
      ],
      ['blocked', { promptTokenCount: 10, totalTokenCount: 10 }, { input: 10 }],
      ['prompt from the total', { candidatesTokenCount: 5, totalTokenCount: 15 }, { input: 10, output: 5 }],
      ['no side', { trafficType: 'ON_DEMAND' }, undefined],
      ['one side', { promptTokenCount: 10 }, undefined],
      [
        'names of prototypes',
        {
          promptTokenCount: 10,
          candidatesTokenCount: 5,
          promptTokensDetails: [
            { modality: '__proto__', tokenCount: 4 },
            { modality: 'constructor', tokenCount: 6 }
          ]
        },
        { input: 10, output: 5 }
      ],
      [
        'more cached than prompt',
        { promptTokenCount: 10, cachedContentTokenCount: 11, candidatesTokenCount: 5 },
        'insane'
      ],
      [
        'more kinds than prompt',
        { promptTokenCount: 10, candidatesTokenCount: 5, promptTokensDetails: [{ modality: 'AUDIO', tokenCount: 11 }] },
        'insane'
      ],
      ['total below the prompt', { promptTokenCount: 10, totalTokenCount: 9 }, 'insane']
    ]
  },
  'gemini embeddings': {
    read: readGeminiEmbeddingUsage,
    cases: [
      [
        'prompt alone',
        { promptTokenCount: 7, promptTokensDetails: [{ modality: 'TEXT', tokenCount: 7 }] },
        { input: 7 }
      ],
      ['with total', { promptTokenCount: 7, totalTokenCount: 7 }, { input: 7 }],
      ['nothing', {}, undefined]
    ]
  },
  rerank: {
    read: readRerankUsage,
    cases: [
      [
        'searches',
        {
          results: [],
          meta: {
            api_version: { version: '2' },
            billed_units: { search_units: 2 },
            tokens: { input_tokens: 42, output_tokens: 0 }
          }
        },
        { search: 2 }
      ],
      ['tokens', { results: [], usage: { total_tokens: 42 } }, { input: 42 }],
      ['tokens twice', { results: [], usage: { total_tokens: 42, prompt_tokens: 42 } }, { input: 42 }],
      [
        'both',
        {
          results: [],
          usage: { prompt_tokens: 42, completion_tokens: 0, total_tokens: 42 },
          meta: { billed_units: { search_units: 1 } }
        },
        { input: 42, search: 1 }
      ],
      [
        'billed tokens',
        { results: [], meta: { billed_units: { input_tokens: 30 } }, usage: { total_tokens: 42 } },
        { input: 30 }
      ],
      ['neither', { results: [], meta: null }, undefined],
      ['half a search', { results: [], meta: { billed_units: { search_units: 0.5 } } }, 'insane'],
      [
        'one of both is wrong',
        { results: [], usage: { total_tokens: -1 }, meta: { billed_units: { search_units: 1 } } },
        'insane'
      ]
    ]
  },
  video: {
    read: readSeconds,
    cases: [
      ['seconds', { seconds: 5 }, { second: 5 }],
      ['failed', { seconds: null }, undefined]
    ]
  }
}

for (const [family, { read, cases }] of Object.entries(examples)) {
  t.test(family, async (t) => {
    for (const [name, report, wanted] of cases)
      t.strictSame(
        read(JSON.parse(JSON.stringify(report))),
        typeof wanted === 'object' ? { ...none, ...wanted } : wanted,
        name
      )
    for (const nothing of [undefined, null, {}, [], [report(cases)], 'usage', 7, true])
      t.equal(read(nothing), undefined, JSON.stringify(nothing))
    const inherited: unknown = JSON.parse(`{"__proto__": ${JSON.stringify(report(cases))}}`)
    t.equal(read(inherited), undefined, 'what looks inherited is not there')
  })
}

function report(cases: readonly [string, object, unknown][]): object {
  return cases[0]![1]
}

t.test("the same call costs the same in everybody's words", async (t) => {
  const wanted = { ...none, input: 1000, cached_input: 9000, output: 70, reasoning: 20 }
  t.strictSame(
    readAnthropicUsage({
      input_tokens: 1000,
      cache_read_input_tokens: 9000,
      output_tokens: 70,
      output_tokens_details: { thinking_tokens: 20 }
    }),
    wanted
  )
  t.strictSame(
    readChatUsage({
      prompt_tokens: 10_000,
      prompt_tokens_details: { cached_tokens: 9000 },
      completion_tokens: 70,
      completion_tokens_details: { reasoning_tokens: 20 }
    }),
    wanted
  )
  t.strictSame(
    readResponsesUsage({
      input_tokens: 10_000,
      input_tokens_details: { cached_tokens: 9000 },
      output_tokens: 70,
      output_tokens_details: { reasoning_tokens: 20 }
    }),
    wanted
  )
  t.strictSame(
    readGeminiUsage({
      promptTokenCount: 10_000,
      cachedContentTokenCount: 9000,
      candidatesTokenCount: 50,
      thoughtsTokenCount: 20
    }),
    wanted
  )
})

t.test('the usage of an Anthropic stream is that of its last words', async (t) => {
  const start = {
    input_tokens: 100,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: 900,
    output_tokens: 1,
    service_tier: 'standard'
  }
  const wanted = { ...none, input: 100, cached_input: 900, output: 15 }
  const streams: [string, unknown[], Classes | undefined][] = [
    ['one delta', [start, { output_tokens: 15 }], wanted],
    ['several deltas', [start, { output_tokens: 5 }, { output_tokens: 10 }, { output_tokens: 15 }], wanted],
    ['input again as zero', [start, { input_tokens: 0, output_tokens: 15 }], wanted],
    ['input again as null', [start, { input_tokens: null, cache_read_input_tokens: null, output_tokens: 15 }], wanted],
    [
      'caches again',
      [start, { cache_read_input_tokens: 900, cache_creation_input_tokens: 0, output_tokens: 15 }],
      wanted
    ],
    [
      'input in the delta alone',
      [
        { input_tokens: 0, output_tokens: 0 },
        { input_tokens: 100, cache_read_input_tokens: 900, output_tokens: 15 }
      ],
      wanted
    ],
    [
      'no usage at the start',
      [undefined, { input_tokens: 100, cache_read_input_tokens: 900, output_tokens: 15 }],
      wanted
    ],
    ['input grows with a tool', [start, { input_tokens: 12_284, output_tokens: 15 }], { ...wanted, input: 12_284 }],
    ['events without usage', [start, undefined, null, 'usage', [], { output_tokens: 15 }], wanted],
    [
      'a part comes late',
      [
        start,
        {
          output_tokens: 15,
          cache_creation: { ephemeral_1h_input_tokens: 7 },
          output_tokens_details: { thinking_tokens: 4 }
        },
        { output_tokens: 15, output_tokens_details: null }
      ],
      { ...wanted, cache_write_long: 7, reasoning: 4 }
    ],
    ['nothing but an output', [{ output_tokens: 15 }], undefined],
    ['nothing', [undefined, null], undefined]
  ]
  for (const [name, events, usage] of streams)
    t.strictSame(readAnthropicUsage(events.reduce(mergeAnthropicUsage, undefined)), usage, name)
  t.equal(
    readAnthropicUsage([start, { output_tokens: -1 }].reduce(mergeAnthropicUsage, {})),
    'insane',
    'a wrong number is not passed over'
  )
  const kept = mergeAnthropicUsage(start, { output_tokens: 2, junk: 'x'.repeat(1000) }) as object
  t.notOk('junk' in kept || 'service_tier' in kept, 'nothing is kept that is not read')
})

t.test('the words tell the family', async (t) => {
  const cases: [string, object, Classes | 'insane' | undefined][] = [
    ['chat', { prompt_tokens: 9, completion_tokens: 2 }, { input: 9, output: 2 }],
    [
      'tokens',
      { input_tokens: 9, output_tokens: 2, input_tokens_details: { cached_tokens: 4 } },
      { input: 5, cached_input: 4, output: 2 }
    ],
    [
      'Anthropic',
      { input_tokens: 9, output_tokens: 2, cache_read_input_tokens: 40 },
      { input: 9, cached_input: 40, output: 2 }
    ],
    [
      'Anthropic with a total',
      { input_tokens: 9, output_tokens: 2, cache_read_input_tokens: 40, total_tokens: 51 },
      { input: 9, cached_input: 40, output: 2 }
    ],
    [
      'Gemini',
      { promptTokenCount: 9, candidatesTokenCount: 2, thoughtsTokenCount: 3 },
      { input: 9, output: 5, reasoning: 3 }
    ],
    [
      'two that agree',
      {
        prompt_tokens: 9,
        completion_tokens: 2,
        prompt_tokens_details: { cached_tokens: 4 },
        input_tokens: 9,
        output_tokens: 2,
        input_tokens_details: null
      },
      { input: 5, cached_input: 4, output: 2 }
    ],
    [
      'a second one of zeros',
      { prompt_tokens: 9, completion_tokens: 2, total_tokens: 11, input_tokens: 0, output_tokens: 0 },
      { input: 9, output: 2 }
    ],
    [
      'a first one of zeros',
      { prompt_tokens: 0, completion_tokens: 0, total_tokens: 11, input_tokens: 9, output_tokens: 2 },
      { input: 9, output: 2 }
    ],
    [
      'half a second one',
      { prompt_tokens: 9, completion_tokens: 2, total_tokens: 11, input_tokens: 9 },
      { input: 9, output: 2 }
    ],
    ['two that do not agree', { prompt_tokens: 9, completion_tokens: 2, input_tokens: 8, output_tokens: 2 }, 'insane'],
    [
      'and no total that decides',
      { prompt_tokens: 9, completion_tokens: 2, input_tokens: 8, output_tokens: 2, total_tokens: 99 },
      'insane'
    ],
    [
      'nor one of zero',
      { prompt_tokens: 0, completion_tokens: 0, input_tokens: 8, output_tokens: 2, total_tokens: 0 },
      'insane'
    ],
    [
      'nor one that is the sum of both',
      { prompt_tokens: 9, completion_tokens: 2, input_tokens: 8, output_tokens: 3, total_tokens: 11 },
      'insane'
    ],
    [
      'caches inside or beside',
      { input_tokens: 50, output_tokens: 2, cache_read_input_tokens: 40, total_tokens: 60 },
      'insane'
    ],
    ['one of them is wrong', { prompt_tokens: 9, completion_tokens: 2, input_tokens: -9, output_tokens: 2 }, 'insane'],
    ['a total alone', { total_tokens: 9 }, undefined],
    ['half a report', { input_tokens: 9 }, undefined],
    ['nulls', { prompt_tokens: null, input_tokens: null, promptTokenCount: null }, undefined]
  ]
  for (const [name, usage, wanted] of cases)
    t.strictSame(readAnyUsage(usage), typeof wanted === 'object' ? { ...none, ...wanted } : wanted, name)
})

t.test('a chat upstream is metered in whatever words it reports', async (t) => {
  const chat = protocols['openai-chat']
  for (const usage of [
    { input_tokens: 9, output_tokens: 2 },
    { promptTokenCount: 9, candidatesTokenCount: 2, totalTokenCount: 11 },
    { prompt_tokens: 9, completion_tokens: 2, input_tokens: 9, output_tokens: 2 }
  ]) {
    const body = JSON.stringify({ choices: [], usage })
    t.strictSame(chat.readUsage(Message.event(body)), { ...none, input: 9, output: 2 })
  }
})

const count = fc.nat({ max: 1_000_000 })
/** What a call consumed, with its cached tokens by what they are. */
const truth = fc.record({
  text: count,
  audio: count,
  image: count,
  cachedText: count,
  cachedAudio: count,
  cachedImage: count,
  written: count,
  tool: count,
  said: count,
  heard: count,
  drawn: count,
  thought: count
})
type Truth = typeof truth extends fc.Arbitrary<infer T> ? T : never

/** How each family says it, and what is left of it in its words. */
const families: Readonly<
  Record<string, { read: Reader; say: (call: Truth) => object; mean: (call: Truth) => Classes }>
> = {
  chat: {
    read: readChatUsage,
    say: (call) => {
      const [prompt, completion] = [
        call.text + call.cachedText + call.written + call.audio + call.image,
        call.said + call.thought + call.heard + call.drawn
      ]
      return {
        prompt_tokens: prompt,
        completion_tokens: completion,
        total_tokens: prompt + completion,
        prompt_tokens_details: {
          cached_tokens: call.cachedText,
          cache_write_tokens: call.written,
          audio_tokens: call.audio,
          image_tokens: call.image
        },
        completion_tokens_details: {
          reasoning_tokens: call.thought,
          audio_tokens: call.heard,
          image_tokens: call.drawn
        }
      }
    },
    mean: (call) => ({
      input: call.text,
      cached_input: call.cachedText,
      cache_write: call.written,
      audio_input: call.audio,
      image_input: call.image,
      output: call.said + call.thought,
      reasoning: call.thought,
      audio_output: call.heard,
      image_output: call.drawn
    })
  },
  embeddings: {
    read: readEmbeddingUsage,
    say: ({ text }) => ({ prompt_tokens: text, total_tokens: text }),
    mean: ({ text }) => ({ input: text })
  },
  responses: {
    read: readResponsesUsage,
    say: (call) => ({
      input_tokens: call.text + call.cachedText + call.written,
      input_tokens_details: { cached_tokens: call.cachedText, cache_write_tokens: call.written },
      output_tokens: call.said + call.thought,
      output_tokens_details: { reasoning_tokens: call.thought },
      total_tokens: call.text + call.cachedText + call.written + call.said + call.thought
    }),
    mean: (call) => ({
      input: call.text,
      cached_input: call.cachedText,
      cache_write: call.written,
      output: call.said + call.thought,
      reasoning: call.thought
    })
  },
  images: {
    read: readImagesUsage,
    say: (call) => ({
      input_tokens: call.text + call.image,
      input_tokens_details: { text_tokens: call.text, image_tokens: call.image },
      output_tokens: call.said + call.drawn,
      output_tokens_details: { text_tokens: call.said, image_tokens: call.drawn },
      total_tokens: call.text + call.image + call.said + call.drawn
    }),
    mean: (call) => ({ input: call.text, image_input: call.image, output: call.said, image_output: call.drawn })
  },
  speech: {
    read: readSpeechUsage,
    say: ({ text, heard }) => ({ input_tokens: text, output_tokens: heard, total_tokens: text + heard }),
    mean: ({ text, heard }) => ({ input: text, audio_output: heard })
  },
  transcription: {
    read: readTranscriptionUsage,
    say: ({ text, audio, said }) => ({
      type: 'tokens',
      input_tokens: text + audio,
      input_token_details: { text_tokens: text, audio_tokens: audio },
      output_tokens: said,
      total_tokens: text + audio + said
    }),
    mean: ({ text, audio, said }) => ({ input: text, audio_input: audio, output: said })
  },
  duration: {
    read: readTranscriptionUsage,
    say: ({ audio }) => ({ type: 'duration', seconds: audio / 1000 }),
    mean: ({ audio }) => ({ second: Number((BigInt(audio) + 999n) / 1000n) })
  },
  realtime: {
    read: readRealtimeUsage,
    say: (call) => {
      const cached = call.cachedText + call.cachedAudio + call.cachedImage
      const input = call.text + call.audio + call.image + cached
      return {
        total_tokens: input + call.said + call.heard,
        input_tokens: input,
        output_tokens: call.said + call.heard,
        input_token_details: {
          text_tokens: call.text + call.cachedText,
          audio_tokens: call.audio + call.cachedAudio,
          image_tokens: call.image + call.cachedImage,
          cached_tokens: cached,
          cached_tokens_details: {
            text_tokens: call.cachedText,
            audio_tokens: call.cachedAudio,
            image_tokens: call.cachedImage
          }
        },
        output_token_details: { text_tokens: call.said, audio_tokens: call.heard }
      }
    },
    mean: (call) => ({
      input: call.text,
      cached_input: call.cachedText + call.cachedAudio + call.cachedImage,
      audio_input: call.audio,
      image_input: call.image,
      output: call.said,
      audio_output: call.heard
    })
  },
  anthropic: {
    read: readAnthropicUsage,
    say: (call) => ({
      input_tokens: call.text,
      cache_read_input_tokens: call.cachedText,
      cache_creation_input_tokens: call.written + call.tool,
      cache_creation: { ephemeral_5m_input_tokens: call.written, ephemeral_1h_input_tokens: call.tool },
      output_tokens: call.said + call.thought,
      output_tokens_details: { thinking_tokens: call.thought }
    }),
    mean: (call) => ({
      input: call.text,
      cached_input: call.cachedText,
      cache_write: call.written,
      cache_write_long: call.tool,
      output: call.said + call.thought,
      reasoning: call.thought
    })
  },
  gemini: {
    read: readGeminiUsage,
    say: (call) => {
      const cached = call.cachedText + call.cachedAudio + call.cachedImage
      const prompt = call.text + call.audio + call.image + cached
      const candidates = call.said + call.heard + call.drawn
      const kinds = (TEXT: number, AUDIO: number, IMAGE: number): object[] =>
        Object.entries({ TEXT, AUDIO, IMAGE }).map(([modality, tokenCount]) => ({ modality, tokenCount }))
      return {
        promptTokenCount: prompt,
        cachedContentTokenCount: cached,
        toolUsePromptTokenCount: call.tool,
        candidatesTokenCount: candidates,
        thoughtsTokenCount: call.thought,
        totalTokenCount: prompt + call.tool + candidates + call.thought,
        promptTokensDetails: kinds(
          call.text + call.cachedText,
          call.audio + call.cachedAudio,
          call.image + call.cachedImage
        ),
        cacheTokensDetails: kinds(call.cachedText, call.cachedAudio, call.cachedImage),
        toolUsePromptTokensDetails: kinds(call.tool, 0, 0),
        candidatesTokensDetails: kinds(call.said, call.heard, call.drawn)
      }
    },
    mean: (call) => ({
      input: call.text + call.tool,
      cached_input: call.cachedText + call.cachedAudio + call.cachedImage,
      audio_input: call.audio,
      image_input: call.image,
      output: call.said + call.thought,
      reasoning: call.thought,
      audio_output: call.heard,
      image_output: call.drawn
    })
  },
  rerank: {
    read: readRerankUsage,
    say: ({ text, tool }) => ({
      results: [],
      meta: { billed_units: { search_units: tool } },
      usage: { total_tokens: text }
    }),
    mean: ({ text, tool }) => ({ input: text, search: tool })
  }
}

/** Classes of zero that may as well be absent are. */
function shown(classes: Classes): Classes {
  return Object.fromEntries(
    Object.entries({ ...none, ...classes }).filter(([name, value]) => name in none || value > 0)
  )
}

const monster = fc.oneof(
  fc.constantFrom<unknown>(
    -1,
    -0.5,
    0.5,
    1e308,
    2 ** 53,
    2 ** 53 + 2,
    most,
    '10',
    '',
    true,
    false,
    {},
    [],
    [3],
    null,
    '__proto__',
    { constructor: 1 },
    Array.from({ length: 1000 }, () => ({ modality: 'AUDIO', tokenCount: most }))
  ),
  fc.integer(),
  fc.nat({ max: 3_000_000 }),
  fc.double()
)

/** Puts a monster in the place of a number or an object, or nothing at all. */
function corrupt(value: unknown, places: readonly number[], monsters: readonly unknown[]): unknown {
  let at = 0
  const walk = (inner: unknown): unknown => {
    const place = places.indexOf(at++)
    if (place !== -1) return monsters[place]
    if (Array.isArray(inner)) return inner.map(walk)
    return typeof inner === 'object' && inner !== null
      ? Object.fromEntries(Object.entries(inner).map(([name, part]) => [name, walk(part)]))
      : inner
  }
  return walk(value)
}

for (const [family, { read, say, mean }] of Object.entries(families)) {
  t.test(`${family}: any usage is read back exactly, and corruption is never money`, async () => {
    fc.assert(
      fc.property(truth, (call) => {
        const usage = read(say(call))
        return isDeepStrictEqual(usage && usage !== 'insane' ? shown(usage) : usage, shown(mean(call)))
      }),
      { numRuns: 500 }
    )
    const damage = fc.array(fc.tuple(fc.integer({ min: 1, max: 30 }), monster), { minLength: 1, maxLength: 3 })
    fc.assert(
      fc.property(truth, damage, (call, changes) => {
        const damaged = corrupt(
          say(call),
          changes.map(([place]) => place),
          changes.map(([, value]) => value)
        )
        for (const usage of [read(damaged), readAnyUsage(damaged)]) {
          if (usage === 'insane' || usage === undefined) continue
          const wrong = ['reasoning' as const, ...pricedClasses].filter(
            (name) => !(Number.isSafeInteger(usage[name] ?? 0) && (usage[name] ?? 0) >= 0)
          )
          if (wrong.length > 0) return false
        }
        return true
      }),
      { numRuns: 3000 }
    )
  })
}

t.test('usage that is written for clients is read back, but for classes that a protocol does not have', (t) => {
  const count = fc.oneof(fc.constant(0), fc.nat(5000))
  const media = ['audio_input', 'image_input', 'audio_output', 'image_output', 'cache_write_long'] as const
  const whole = fc
    .record(
      { input: count, cached_input: count, cache_write: count, output: count, thinks: fc.nat(100) },
      { noNullPrototype: true }
    )
    .map(({ thinks, ...usage }) => ({ ...usage, reasoning: Math.floor((usage.output * thinks) / 100) }))
  const some = fc.record(Object.fromEntries(media.map((name) => [name, count])), { requiredKeys: [] })
  const usages: fc.Arbitrary<Usage> = fc.tuple(whole, some).map(([usage, more]) => ({ ...usage, ...more }))
  const forms: Record<string, [write: (usage: Usage) => unknown, read: Reader, keeps: (usage: Usage) => Usage]> = {
    chat: [
      writeChatUsage,
      readChatUsage,
      ({ cache_write_long: long = 0, ...usage }) => ({ ...usage, cache_write: usage.cache_write + long })
    ],
    responses: [writeResponsesUsage, readResponsesUsage, (usage) => usage],
    gemini: [
      writeGeminiUsage,
      readGeminiUsage,
      ({ cache_write: written, cache_write_long: long = 0, ...usage }) => ({
        ...usage,
        cache_write: 0,
        input: usage.input + written + long
      })
    ],
    anthropic: [
      writeAnthropicUsage,
      readAnthropicUsage,
      ({ audio_input: a = 0, image_input: b = 0, audio_output: c = 0, image_output: d = 0, ...usage }) => ({
        ...usage,
        input: usage.input + a + b,
        output: usage.output + c + d
      })
    ]
  }
  const counted = (usage: object): object => Object.fromEntries(Object.entries(usage).filter(([, units]) => units > 0))
  for (const [name, [write, read, keeps]] of Object.entries(forms))
    t.doesNotThrow(
      () =>
        fc.assert(
          fc.property(usages, (usage) => {
            const found = read(JSON.parse(JSON.stringify(write(usage))))
            return typeof found === 'object' && isDeepStrictEqual(counted(found), counted(keeps(usage)))
          }),
          { numRuns: 300 }
        ),
      name
    )
  t.end()
})
