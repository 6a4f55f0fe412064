// What the tests of the simulator share: starting one, and asking it.
import type { Test } from 'tap'
import type { Directive } from '../../../core/simulator/directive.ts'
import { startSimulator } from '../../../core/simulator/simulator.ts'
import type { Simulator, SimulatorOptions } from '../../../core/simulator/simulator.ts'
import { ask } from '../../kit/client.ts'
import type { ReceivedReply } from '../../kit/client.ts'

/** Parts of a form in their order; a file has a name. */
export type Parts = readonly (readonly [name: string, value: string | Uint8Array<ArrayBuffer>, filename?: string])[]

/** A simulator that is closed with the test, and a way to ask it. */
export interface Bench extends Simulator {
  /** Sends JSON where there is a body; `method` is GET without one. */
  send(
    path: string,
    body?: unknown,
    more?: { method?: string; headers?: Record<string, string> }
  ): Promise<ReceivedReply>
  /** Sends a form; a value that is bytes is a file. */
  upload(path: string, parts: Parts, more?: { headers?: Record<string, string> }): Promise<ReceivedReply>
  /** The JSON of an answer with status 200. */
  json(path: string, body?: unknown, more?: { method?: string; headers?: Record<string, string> }): Promise<any>
}

export async function start(t: Test, options?: SimulatorOptions): Promise<Bench> {
  const simulator = await startSimulator(options)
  t.teardown(() => simulator.close())
  const send: Bench['send'] = (path, body, more) =>
    ask(t, simulator.url, { path, ...(body !== undefined && { body }), ...more })
  return {
    ...simulator,
    send,
    async upload(path, parts, more) {
      const { body, contentType } = await encodeForm(parts)
      return send(path, body, { headers: { 'content-type': contentType, ...more?.headers } })
    },
    async json(path, body, more) {
      const reply = await send(path, body, more)
      if (reply.status !== 200) throw new Error(`${path} was answered ${reply.status}: ${reply.text}`)
      return reply.json()
    }
  }
}

/** A form as it goes over the wire. */
async function encodeForm(parts: Parts): Promise<{ body: Buffer; contentType: string }> {
  const form = new FormData()
  for (const [name, value, filename] of parts) {
    if (typeof value === 'string') form.append(name, value)
    else form.append(name, new Blob([value]), filename ?? 'file.bin')
  }
  const encoded = new Response(form)
  return { body: Buffer.from(await encoded.arrayBuffer()), contentType: encoded.headers.get('content-type')! }
}

/** A text with a directive in it. */
export function tell(directive: Directive, text = 'Tell me about boats.'): string {
  return `${text} [[simulator ${JSON.stringify(directive)}]]`
}

/** Every place inside a value, itself left out. */
export function placesOf(value: unknown, path: readonly string[] = []): string[][] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, inner]) => [[...path, name], ...placesOf(inner, [...path, name])])
}

/** The value with something else at a place; undefined: with nothing there. */
export function changed(value: any, [name, ...rest]: readonly string[], other: unknown): unknown {
  const copy = Array.isArray(value) ? [...value] : { ...value }
  const inner = rest.length === 0 ? other : changed(value[name!], rest, other)
  if (inner !== undefined) copy[name!] = inner
  else if (Array.isArray(copy)) copy.splice(Number(name), 1)
  else delete copy[name!]
  return copy
}
