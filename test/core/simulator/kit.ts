// What the tests of the simulator share: starting one, and asking it.
import type { Test } from 'tap'
import type { Directive } from '../../../core/simulator/directive.ts'
import { startSimulator } from '../../../core/simulator/simulator.ts'
import type { Simulator, SimulatorOptions } from '../../../core/simulator/simulator.ts'
import { ask } from '../../kit/client.ts'
import type { ReceivedReply } from '../../kit/client.ts'

/** A simulator that is closed with the test, and a way to ask it. */
export interface Bench extends Simulator {
  /** Sends JSON where there is a body; `method` is GET without one. */
  send(path: string, body?: unknown, more?: { method?: string; headers?: Record<string, string> }): Promise<ReceivedReply>
  /** The JSON of an answer with status 200. */
  json(path: string, body?: unknown, more?: { method?: string; headers?: Record<string, string> }): Promise<any>
}

export async function start(t: Test, options?: SimulatorOptions): Promise<Bench> {
  const simulator = await startSimulator(options)
  t.teardown(() => simulator.close())
  const send: Bench['send'] = (path, body, more) => ask(t, simulator.url, { path, ...(body !== undefined && { body }), ...more })
  return {
    ...simulator,
    send,
    async json(path, body, more) {
      const reply = await send(path, body, more)
      if (reply.status !== 200) throw new Error(`${path} was answered ${reply.status}: ${reply.text}`)
      return reply.json()
    }
  }
}

/** A text with a directive in it. */
export function tell(directive: Directive, text = 'Tell me about boats.'): string {
  return `${text} [[simulator ${JSON.stringify(directive)}]]`
}
