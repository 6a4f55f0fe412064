// An upstream that does what each request asks it to, and remembers what it counted: the truth that books are held
// against.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import type { Units } from '../kit/oracle.ts'

/** What goes wrong, if anything: before the answer, or in the midst of it. */
export type Fault = 'refuse' | 'break' | 'reset' | 'error-in-200' | 'cut' | 'end-early' | 'hold'

/** What a request wants to happen; it travels as the text of its message. */
export interface Plan {
  id: string
  /** What the upstream counts for it. */
  units: Units
  /** Events of text, when streamed. */
  words: number
  /** Milliseconds between events. */
  gap?: number
  fault?: Fault
  /**
   * Where a streamed answer stops for as long as the connection lasts: before this event. `usage` and `done` are events
   * too.
   */
  stopAt?: number | 'usage' | 'done'
  /** The usage as it is on the wire; default: the units in the form of the protocol. */
  usage?: unknown
  /** A field that an event after the text has, instead of `usage`. */
  place?: 'x_groq' | 'choice' | 'after done' | 'every event' | 'zero follows'
  /** Faults happen on this channel only. */
  channel?: string
}

/** Usage as OpenAI-compatible upstreams report it: parts are counted in their whole. */
export function wireUsage(units: Units): Record<string, unknown> {
  const {
    input = 0,
    cached_input = 0,
    cache_write = 0,
    audio_input = 0,
    image_input = 0,
    output = 0,
    audio_output = 0,
    reasoning = 0
  } = units
  const prompt = input + cached_input + cache_write + audio_input + image_input
  const completion = output + audio_output
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: {
      cached_tokens: cached_input,
      cache_write_tokens: cache_write,
      audio_tokens: audio_input,
      image_tokens: image_input
    },
    completion_tokens_details: { reasoning_tokens: reasoning, audio_tokens: audio_output }
  }
}

/** One upstream for any number of requests. */
export class PlannedUpstream {
  /** Requests that arrived, by the id of their plan, with the body as it came. */
  readonly seen = new Map<string, any[]>()
  /** Ids of plans whose answer went out to its last byte. */
  readonly served = new Set<string>()
  readonly name: string
  readonly #server: Server
  /** Answers wait for it. */
  gate: Promise<void> = Promise.resolve()
  #onStop: ((plan: Plan) => void) | undefined

  private constructor(name: string) {
    this.name = name
    this.#server = createServer(
      (request, response) => void this.#serve(request, response).catch(() => response.destroy())
    )
    this.#server.keepAliveTimeout = 60_000
  }

  /** Starts one on a free port; closed when the test is over. */
  static async start(t: Test, name = 'up'): Promise<PlannedUpstream> {
    const upstream = new PlannedUpstream(name)
    upstream.#server.listen(0, '127.0.0.1', 4096)
    await once(upstream.#server, 'listening')
    t.teardown(() => {
      upstream.#server.close()
      upstream.#server.closeAllConnections()
    })
    return upstream
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1`
  }

  /** Requests that arrived in all. */
  get count(): number {
    let count = 0
    for (const bodies of this.seen.values()) count += bodies.length
    return count
  }

  /** Resolves with the next plan that has reached its stop. */
  stopped(): Promise<Plan> {
    return new Promise((resolve) => (this.#onStop = resolve))
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const body = JSON.parse(Buffer.concat(chunks).toString('utf8')) as {
      stream?: boolean
      model: string
      messages: { content: string }[]
    }
    const plan = JSON.parse(body.messages[0]!.content) as Plan
    const bodies = this.seen.get(plan.id)
    if (bodies) bodies.push(body)
    else this.seen.set(plan.id, [body])
    await this.gate
    const fault = plan.channel === undefined || plan.channel === this.name ? plan.fault : undefined
    if (fault === 'hold') {
      this.#onStop?.(plan)
      return
    }
    if (fault === 'refuse') return answer(response, 400, { error: { message: 'no' } })
    if (fault === 'break') return answer(response, 500, { error: { message: 'broken' } })
    if (fault === 'error-in-200') return answer(response, 200, { error: { message: 'broken inside' } })
    if (fault === 'reset') return void request.socket.resetAndDestroy()
    if (body.stream) await this.#stream(plan, fault, body.model, response)
    else await this.#whole(plan, fault, body.model, response)
  }

  async #whole(plan: Plan, fault: Fault | undefined, model: string, response: ServerResponse): Promise<void> {
    const usage = plan.usage === undefined ? wireUsage(plan.units) : plan.usage
    const choice: Record<string, unknown> = {
      index: 0,
      message: { role: 'assistant', content: text(plan.words) },
      finish_reason: 'stop'
    }
    const body: Record<string, unknown> = {
      id: `chatcmpl-${plan.id}`,
      object: 'chat.completion',
      created: 1,
      model,
      choices: [choice]
    }
    if (plan.place === 'x_groq') body['x_groq'] = { usage }
    else if (plan.place === 'choice') choice['usage'] = usage
    else if (plan.usage !== absent) body['usage'] = usage
    if (plan.gap) await sleep(plan.gap)
    const bytes = Buffer.from(JSON.stringify(body))
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': bytes.length })
    if (fault) {
      response.write(bytes.subarray(0, bytes.length >> 1))
      await sleep(5)
      return void response.destroy()
    }
    response.end(bytes)
    this.served.add(plan.id)
  }

  async #stream(plan: Plan, fault: Fault | undefined, model: string, response: ServerResponse): Promise<void> {
    const usage = plan.usage === undefined ? wireUsage(plan.units) : plan.usage
    const reports = plan.usage !== absent
    const send = (more: object): boolean =>
      response.write(event({ id: `chatcmpl-${plan.id}`, object: 'chat.completion.chunk', created: 1, model, ...more }))
    const choices = (delta: object, finish: string | null = null, more: object = {}): object => ({
      choices: [{ index: 0, delta, finish_reason: finish, ...more }]
    })
    const stop = async (): Promise<void> => {
      this.#onStop?.(plan)
      await once(response, 'close')
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    send(choices({ role: 'assistant', content: '' }))
    for (let word = 0; word < plan.words; word++) {
      if (plan.stopAt === word) return stop()
      if (fault && word === plan.words >> 1) {
        await sleep(5)
        return void (fault === 'cut' ? response.destroy() : response.end())
      }
      const taken = send({
        ...choices({ content: `word${word} ` }),
        ...(plan.place === 'every event' && { usage: grown(usage, word + 1, plan.words) })
      })
      if (!taken) await drained(response)
      if (plan.gap) await sleep(plan.gap)
      if (response.destroyed) return
    }
    send(choices({}, 'stop', plan.place === 'choice' ? { usage } : {}))
    if (plan.stopAt === 'usage') return stop()
    if (plan.place === 'x_groq') send({ choices: [], x_groq: { usage } })
    else if (reports && (plan.place === undefined || plan.place === 'zero follows')) send({ choices: [], usage })
    if (plan.place === 'zero follows')
      send({ choices: [], usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 } })
    if (plan.stopAt === 'done') return stop()
    response.write('data: [DONE]\n\n')
    if (plan.place === 'after done') send({ choices: [], usage })
    response.end()
    this.served.add(plan.id)
  }
}

/** As the usage of a plan: the answer has none. */
export const absent = 'absent'

function answer(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

function event(value: unknown): string {
  return `data: ${JSON.stringify(value)}\n\n`
}

function text(words: number): string {
  return Array.from({ length: words }, (_, i) => `word${i} `).join('')
}

/** A report on the way to the final one: as much of the completion as there is by now. */
function grown(usage: unknown, part: number, of: number): unknown {
  const { prompt_tokens: prompt, completion_tokens: completion } = usage as {
    prompt_tokens: number
    completion_tokens: number
  }
  return { prompt_tokens: prompt, completion_tokens: Math.floor((completion * part) / of) }
}

/** Resolves when the client takes more, or is gone. */
function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      response.off('drain', done).off('close', done)
      resolve()
    }
    response.on('drain', done).on('close', done)
  })
}
