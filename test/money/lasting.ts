// Clients of what outlasts a request: responses in the background, tasks and realtime sessions; and what the books must
// have of it, however often gateways are killed.
import { WebSocket } from 'ws'
import type { Entry } from './rig.ts'
import { secretOf } from './rig.ts'

/** Nano-dollars of a token, of a second of video, and of a picture. */
export const costOf = (input = 0, output = 0): bigint => BigInt(input) * 1000n + BigInt(output) * 2000n
export const perSecond = 100_000_000n
export const perPicture = 40_000_000n

export const headers = { authorization: `Bearer ${secretOf('test')}`, 'content-type': 'application/json' }
export const directive = (members: object): string => `Tell me. [[simulator ${JSON.stringify(members)}]]`

type Random = (below: number) => number

/** A row of the journal with what {@link Entry} leaves out. */
export type Part = Entry & { part: string; model: string }

/** A reply as far as it came; undefined when nothing of use did. */
export async function call(
  url: string,
  method: string,
  body?: object
): Promise<{ status: number; text: string; request: string } | undefined> {
  try {
    const reply = await fetch(url, {
      method,
      headers,
      ...(body && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(10_000)
    })
    const request = reply.headers.get('x-request-id')!
    let text = ''
    try {
      for await (const piece of reply.body!) text += Buffer.from(piece).toString()
    } catch {
      // What came counts.
    }
    return { status: reply.status, text, request }
  } catch {
    return undefined
  }
}

/** What a client knows of its response. */
export interface Known {
  id: string
  request: string
  model: 'native' | 'own'
  cancelled: boolean
}

export const responses = '/v1/responses'

/** Begins a response of an upstream (`native`) or of the gateway's own; undefined when its client was told of none. */
export async function beginResponse(url: string, random: Random): Promise<Known | undefined> {
  const model = random(2) === 0 ? 'native' : 'own'
  const stream = random(3) === 0
  const time = random(300)
  const members =
    model === 'native' && !stream
      ? { queue_ms: time / 4, work_ms: time, tokens: 5 + random(30) }
      : stream
        ? { tokens: 5 + random(30), gap_ms: 1 + random(10) }
        : { first_byte_ms: time, tokens: 5 + random(30) }
  const reply = await call(`${url}${responses}`, 'POST', { model, input: directive(members), background: true, stream })
  const id = reply?.status === 200 ? /"id":\s*"(resp_\w+)"/.exec(reply.text)?.[1] : undefined
  return id === undefined ? undefined : { id, request: reply!.request, model, cancelled: false }
}

/** A charge for the prompt alone, by estimate: due for work that was called off and of which nothing is counted. */
function isPrompt(end: Part | undefined): boolean {
  if (end?.kind !== 'settle' || end.source !== 'estimated') return false
  const { input = 0, output } = end.usage ?? {}
  return input > 0 && output === 0 && end.amount === costOf(input, 0)
}

/** The responses that are lost, or not charged once for what they came to. `shown`: how each is now, by its id. */
export function wrongResponses(
  ends: ReadonlyMap<string, Part>,
  known: readonly Known[],
  shown: ReadonlyMap<string, any>
): object[] {
  return known.flatMap((one) => {
    const response = shown.get(one.id)
    const end = ends.get(`${one.request}/`)
    const due = response?.usage ? costOf(response.usage.input_tokens, response.usage.output_tokens) : 0n
    const problem = !response
      ? 'lost'
      : response.status === 'completed' && (end?.kind !== 'settle' || end.amount !== due)
        ? 'not charged as the upstream counted'
        : one.model === 'native' &&
            response.status !== 'completed' &&
            !(one.cancelled && response.status === 'cancelled')
          ? "an upstream's response has another end than it had there"
          : one.model === 'native' && end?.amount !== due && !(one.cancelled && !response.usage && isPrompt(end))
            ? 'not charged as it ended'
            : !end || end.amount > end.reserved
              ? 'no end, or a dear one'
              : undefined
    return problem === undefined ? [] : [{ problem, one, status: response?.status, due, end }]
  })
}

/** What a client saw of its session. */
export interface Talk {
  request: string
  /** Of each response whose end was shown. */
  done: bigint[]
}

/** Talks with the model `talk` until the session ends. */
export async function talk(url: string, seen: Talk[], over: () => boolean, random: Random): Promise<void> {
  const socket = new WebSocket(`${url.replace('http', 'ws')}/v1/realtime?model=talk`, {
    headers: { authorization: headers.authorization }
  })
  socket.on('error', () => {})
  const closed = new Promise<void>((resolve) => void socket.on('close', () => resolve()))
  const session: Talk = { request: '', done: [] }
  socket.on('upgrade', ({ headers: { 'x-request-id': id } }) => {
    session.request = String(id)
    seen.push(session)
  })
  const say = (): void => {
    if (over()) return socket.close()
    socket.send(
      JSON.stringify({
        type: 'conversation.item.create',
        item: {
          type: 'message',
          role: 'user',
          content: [{ type: 'input_text', text: directive({ tokens: 3 + random(20), gap_ms: random(8) }) }]
        }
      })
    )
    socket.send(JSON.stringify({ type: 'response.create', response: { output_modalities: ['text'] } }))
  }
  socket.on('open', say)
  socket.on('message', (data) => {
    const { type, response } = JSON.parse(String(data)) as {
      type: string
      response?: { usage: { input_tokens: number; output_tokens: number } }
    }
    // A turn that is refused has no end: its client begins another session.
    if (type === 'error') return socket.close()
    if (type !== 'response.done') return
    session.done.push(costOf(response!.usage.input_tokens, response!.usage.output_tokens))
    say()
  })
  await closed
}

/** The sessions with a turn whose end was shown and that is not charged once, or with more than one further charge. */
export function wrongTalks(terminals: readonly Part[], talks: readonly Talk[]): object[] {
  const turns = Map.groupBy(
    terminals.filter(({ part }) => part !== ''),
    ({ request_id }) => request_id
  )
  return talks.flatMap(({ request, done }) => {
    const parts = turns.get(request) ?? []
    const left = parts.map(({ amount }) => amount)
    for (const amount of done) {
      const at = left.indexOf(amount)
      if (at === -1) return [{ request, amount, parts }]
      left.splice(at, 1)
    }
    return left.length > 1 ? [{ request, amount: left[0]!, parts }] : []
  })
}

export const videos = '/v1/video/generations'
export const pictures = '/v1/images/generations/async'

/** What a client knows of its task. */
export interface Task {
  path: string
  id: string
  request: string
  seconds: number
  ending: 'succeeds' | 'fails'
}

/** Begins a task with the model `demo`; undefined when its client was told of none. */
export async function beginTask(
  url: string,
  path: string,
  ending: Task['ending'],
  [queue, work]: readonly [number, number],
  random: Random
): Promise<Task | undefined> {
  const seconds = 1 + random(20)
  const members =
    path === videos
      ? { queue_ms: queue, work_ms: work, ...(ending === 'fails' && { fail: { code: 'blocked' } }) }
      : ending === 'fails'
        ? { status: 400, first_byte_ms: work, body: { error: { message: 'No.', code: 'blocked' } } }
        : { first_byte_ms: work }
  const reply = await call(`${url}${path}`, 'POST', {
    model: 'demo',
    prompt: `A boat [[simulator ${JSON.stringify(members)}]]`,
    ...(path === videos ? { seconds } : { size: '64x64' })
  })
  if (reply?.status !== 202) return undefined
  const id = /"id":\s*"([^"]+)"/.exec(reply.text)?.[1]
  return id === undefined ? undefined : { path, id, request: reply.request, seconds, ending }
}

/** How a task is; undefined when nobody says. */
export async function lookAt(url: string, { path, id }: Task): Promise<{ status: string } | undefined> {
  const reply = await call(`${url}${path}/${id}`, 'GET')
  return reply?.status === 200 ? (JSON.parse(reply.text) as { status: string }) : undefined
}

/** The states of a task or a response that has not ended. */
export const goesOn: ReadonlySet<string | undefined> = new Set(['queued', 'in_progress'])

/** The tasks that have another end in the books than their client sees. `seen`: how each is now, by its id. */
export function wrongTasks(
  ends: ReadonlyMap<string, Entry>,
  tasks: readonly Task[],
  seen: ReadonlyMap<string, string>
): object[] {
  return tasks.flatMap((task) => {
    const end = ends.get(task.request)
    const due =
      seen.get(task.id) !== 'succeeded' ? 0n : task.path === videos ? BigInt(task.seconds) * perSecond : perPicture
    return end?.kind === (due > 0n ? 'settle' : 'void') && end.amount === due
      ? []
      : [{ task, status: seen.get(task.id), due, end }]
  })
}
