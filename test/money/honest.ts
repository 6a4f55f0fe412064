// An upstream that does what it was asked to, and no more: it counts as much as a request lets it, or a share of that.
import { createServer } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'

/** What a model can read and say, in tokens. */
export interface Abilities {
  readonly context: number
  readonly output: number
}

/** Tokens of the largest picture in the model that counts most for one, and of a picture made in high quality. */
const pictureIn = 48_169
const pictureOut = 6240

/** Bytes and tokens of a second of sound: of the sound, and of the text that is heard in it. */
const soundBytes = 16_000
const soundIn = 32
const soundOut = 25
/** The longest video that is made where nobody says how long. */
const usualSeconds = 12

type Body = Record<string, any>

/** One on a free port. `share`: of the most that it may count, from 0 to 1. */
export class HonestUpstream {
  share = 1
  readonly url: URL
  readonly bodies: Body[] = []

  private constructor(url: URL) {
    this.url = url
  }

  static async start(t: Test, abilities: Abilities): Promise<HonestUpstream> {
    const server = createServer((request, response) => {
      const chunks: Buffer[] = []
      request.on('data', (chunk: Buffer) => chunks.push(chunk))
      request.on('end', () => {
        void bodyOf(Buffer.concat(chunks), request.headers['content-type'] ?? '').then((body) => {
          upstream.bodies.push(body)
          const path = request.url!.replace(/^.*\/(v1|v1beta)/, '').replace(/models\/[^:]+/, '')
          const answer = answerTo(path, body, abilities, upstream.share)
          if (Buffer.isBuffer(answer)) return void response.writeHead(200, { 'content-type': 'audio/mpeg' }).end(answer)
          const events = body['stream'] === true || path.includes('stream') ? streamOf(path, answer as Body) : undefined
          response.writeHead(200, { 'content-type': events ? 'text/event-stream' : 'application/json' })
          response.end(events ?? JSON.stringify(answer))
        })
      })
    })
    // A request that waits for its turn is not to meet a connection that was just closed.
    server.keepAliveTimeout = 120_000
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    t.teardown(() => server.close())
    const upstream = new HonestUpstream(new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`))
    return upstream
  }
}

function answerTo(path: string, body: Body, abilities: Abilities, share: number): object | Buffer {
  const part = (most: number): number => Math.floor(most * share)
  const { context, output } = abilities
  const said = (limit: unknown): number => Math.min(Number(limit ?? output), output)
  const chatUsage = (prompt: number, completion: number): object => {
    return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion }
  }
  switch (path) {
    case '/chat/completions': {
      const input = part(Math.min(read(body['messages'], context) + bytesOf(body['tools']), context))
      const each = said(body['max_completion_tokens'] ?? body['max_tokens']) + bytesOf(body['prediction'])
      const n = body['n'] ?? 1
      const choices = Array.from({ length: n }, (_, index) => {
        return { index, message: { role: 'assistant', content: 'x' }, finish_reason: 'stop' }
      })
      return { id: 'c', object: 'chat.completion', choices, usage: chatUsage(input, part(n * each)) }
    }
    case '/completions': {
      const { prompt } = body
      const prompts = Array.isArray(prompt) && typeof prompt[0] !== 'number' ? prompt.length : 1
      const count = Math.max(body['n'] ?? 1, body['best_of'] ?? 1) * Math.max(1, prompts)
      const choices = [{ index: 0, text: 'x', finish_reason: 'stop' }]
      const usage = chatUsage(part(bytesOf(prompt)), part(count * said(body['max_tokens'])))
      return { id: 'c', object: 'text_completion', choices, usage }
    }
    case '/responses': {
      const hosted = (body['tools'] ?? []).filter(({ type }: Body) => type !== 'function')
      const calls = hosted.length === 0 ? 0 : part(body['max_tool_calls'] ?? 1000)
      const once = Math.min(read(body['input'], context), context)
      const rounds = calls > 0 ? (calls + 1) * context : once
      const input = part(body['previous_response_id'] ? context : rounds)
      const made = part(said(body['max_output_tokens']))
      const message = { type: 'message', id: 'm', role: 'assistant', content: [{ type: 'output_text', text: 'x' }] }
      const items = Array.from({ length: calls }, (_, n) => ({
        type: `${hosted[n % hosted.length].type}_call`,
        id: `w${n}`
      }))
      const usage = { input_tokens: input, output_tokens: made, total_tokens: input + made }
      const about = { id: 'resp_1', object: 'response', status: 'completed', model: 'demo', store: false }
      return { ...about, output: [...items, message], usage }
    }
    case '/embeddings':
      return {
        object: 'list',
        data: [{ index: 0, embedding: [0.5] }],
        usage: { prompt_tokens: part(bytesOf(body['input'])), total_tokens: part(bytesOf(body['input'])) }
      }
    case '/images/generations': {
      const n = body['n'] ?? 1
      const data = Array.from({ length: n }, () => ({ url: 'https://a.example/b.png' }))
      const [input_tokens, output_tokens] = [part(bytesOf(body['prompt'])), part(n * pictureOut)]
      return { created: 1, data, usage: { input_tokens, output_tokens, total_tokens: input_tokens + output_tokens } }
    }
    case '/images/edits':
    case '/images/variations': {
      const n = Number(body['n'] ?? 1)
      const data = Array.from({ length: n }, () => ({ url: 'https://a.example/b.png' }))
      const input_tokens = part(Math.min(bytesOf(body['prompt']) + body['files'].length * pictureIn, context))
      const output_tokens = part(n * pictureOut)
      return { created: 1, data, usage: { input_tokens, output_tokens, total_tokens: input_tokens + output_tokens } }
    }
    case '/audio/transcriptions':
    case '/audio/translations': {
      const seconds = body['files'].reduce((sum: number, size: number) => sum + size / soundBytes, 0)
      if (share > 0.7) return { text: 'x', usage: { type: 'duration', seconds: Math.ceil(seconds) } }
      const input_tokens = part(Math.min(seconds * soundIn + bytesOf(body['prompt']), context))
      const output_tokens = part(seconds * soundOut)
      return {
        text: 'x',
        usage: { type: 'tokens', input_tokens, output_tokens, total_tokens: input_tokens + output_tokens }
      }
    }
    case '/videos': {
      const seconds = String(body['seconds'] ?? body['duration'] ?? Math.max(1, part(usualSeconds)))
      return { id: `video_${seconds}`, object: 'video', status: 'queued', seconds }
    }
    case '/moderations':
      return { id: 'modr_1', model: 'x', results: [{ flagged: false, categories: {}, category_scores: {} }] }
    case '/responses/compact': {
      const input_tokens = part(Math.min(read(body['input'], context), context))
      const output_tokens = part(output)
      return {
        id: 'resp_1',
        object: 'response.compaction',
        output: [],
        usage: { input_tokens, output_tokens, total_tokens: input_tokens + output_tokens }
      }
    }
    case '/audio/speech':
      return Buffer.alloc(100)
    case '/rerank': {
      const { query, documents } = body
      const tokens = part(bytesOf(query) * documents.length + bytesOf(documents))
      const chunks = documents.reduce(
        (sum: number, text: string) => sum + Math.max(1, Math.ceil(text.length / 2000)),
        0
      )
      const units = share > 0.5 ? { search_units: Math.ceil(chunks / 100) } : {}
      return { results: [{ index: 0, relevance_score: 1 }], meta: { billed_units: { ...units, input_tokens: tokens } } }
    }
    case '/messages': {
      const input = part(Math.min(read(body['messages'], context) + bytesOf(body['system']), context))
      const usage = {
        input_tokens: 0,
        cache_creation_input_tokens: input,
        output_tokens: part(said(body['max_tokens']))
      }
      const creation = { cache_creation: { ephemeral_1h_input_tokens: input } }
      const content = [{ type: 'text', text: 'x' }]
      return {
        id: 'm',
        type: 'message',
        role: 'assistant',
        model: 'x',
        content,
        stop_reason: 'end_turn',
        usage: { ...usage, ...creation }
      }
    }
    default: {
      // A video is told of by its id alone.
      const video = /^\/videos\/video_(\d+)$/.exec(path)
      if (video) return { id: path.slice(8), object: 'video', status: 'completed', seconds: video[1] }
      const { maxOutputTokens, candidateCount = 1 } = body['generationConfig'] ?? {}
      const input = part(Math.min(read(body['contents'], context), context))
      const made = part(Number(candidateCount) * said(maxOutputTokens))
      const candidates = [{ index: 0, content: { role: 'model', parts: [{ text: 'x' }] }, finishReason: 'STOP' }]
      const usageMetadata = { promptTokenCount: input, candidatesTokenCount: made, totalTokenCount: input + made }
      return { candidates, usageMetadata }
    }
  }
}

/** The members of a JSON body, or the fields of a form with the sizes of its files. */
async function bodyOf(bytes: Buffer, type: string): Promise<Body> {
  if (bytes.length === 0) return {}
  if (!type.startsWith('multipart/')) return JSON.parse(bytes.toString()) as Body
  const form = await new Response(new Uint8Array(bytes), { headers: { 'content-type': type } }).formData()
  const body: Body = { files: [] }
  for (const [name, value] of form.entries())
    if (typeof value === 'string') body[name] = value
    else body['files'].push(value.size)
  return body
}

/** The events of a streamed answer: its text, and its usage at the end. */
function streamOf(path: string, answer: Body): string {
  const event = (payload: Body): string =>
    `${payload['type'] ? `event: ${payload['type']}\n` : ''}data: ${JSON.stringify(payload)}\n\n`
  const { usage, ...rest } = answer
  switch (path) {
    case '/chat/completions': {
      const choices = answer['choices'].map(({ index }: Body) => {
        return { index, delta: { role: 'assistant', content: 'x' }, finish_reason: 'stop' }
      })
      const about = { id: 'c', object: 'chat.completion.chunk', created: 1, model: 'x' }
      return `${event({ ...about, choices })}${event({ ...about, choices: [], usage })}data: [DONE]\n\n`
    }
    case '/completions':
      return `${event(rest)}${event({ ...rest, choices: [], usage })}data: [DONE]\n\n`
    case '/responses': {
      const created = { ...rest, status: 'in_progress', output: [] }
      const done = answer['output'].map((item: Body, output_index: number) => {
        return event({ type: 'response.output_item.done', output_index, item })
      })
      return [
        event({ type: 'response.created', response: created }),
        ...done,
        event({ type: 'response.completed', response: answer })
      ].join('')
    }
    case '/messages': {
      const { output_tokens, ...early } = usage
      return [
        {
          type: 'message_start',
          message: { ...rest, content: [], stop_reason: null, usage: { ...early, output_tokens: 1 } }
        },
        { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
        { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'x' } },
        { type: 'content_block_stop', index: 0 },
        { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens } },
        { type: 'message_stop' }
      ]
        .map(event)
        .join('')
    }
    default:
      return event(answer)
  }
}

/** A token for each byte of text, the most for each picture, and all that it can read for a document. */
function read(value: unknown, context: number): number {
  const text = JSON.stringify(value ?? '')
  const pictures = text.match(/"(image_url|input_image|image\/png)"/g)?.length ?? 0
  const documents = text.match(/"(file_id|file_data|file_url|fileUri|application\/pdf)"/g)?.length ?? 0
  return (
    Buffer.byteLength(text.replaceAll(/"(type|role|text|content)":/g, '')) + pictures * pictureIn + documents * context
  )
}

function bytesOf(value: unknown): number {
  return value === undefined ? 0 : Buffer.byteLength(typeof value === 'string' ? value : JSON.stringify(value))
}
