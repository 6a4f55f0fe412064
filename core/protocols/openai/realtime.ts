// Realtime sessions: frames of JSON events, to and fro over one connection.
import { withMembers } from '../../bodies/splice.ts'
import { asObject } from '../object.ts'
import { openaiChat } from '../openai-chat/protocol.ts'
import type { FrameProtocol } from '../frames.ts'
import type { Payload, Protocol } from '../protocol.ts'
import { readRealtimeUsage } from '../usage/openai-tokens.ts'
import { withoutStream } from '../whole.ts'
import { innerLens } from './inner-lens.ts'
import { realtimeText } from './realtime-text.ts'
import { RealtimeWatch } from './realtime-watch.ts'

const frames: FrameProtocol = {
  watch: () => new RealtimeWatch(),
  withModel,
  error: ({ type, message, code, param }, event) => {
    // Clients tell errors apart by the event that they sent; a name for this one is demanded by some.
    const error = { type, code, message, param: param ?? null, event_id: event ?? null }
    return JSON.stringify({ type: 'error', event_id: `event_${crypto.randomUUID().replaceAll('-', '')}`, error })
  },
  configure: (settings) => `{"type":"session.update","session":${settings}}`,
  cancel: (id) => JSON.stringify({ type: 'response.cancel', response_id: id })
}

/** https://platform.openai.com/docs/api-reference/realtime */
export const openaiRealtime: Protocol = {
  ...withoutStream(openaiChat, {
    isAnswer: () => false,
    readUsage: (message) => readRealtimeUsage(asObject(asObject(message.json())?.['response'])?.['usage'])
  }),
  errorPlaces: [['error'], ['message'], ['response', 'status_details', 'error']],
  // The earlier form of the interface, which some upstreams still have.
  passedHeaders: ['openai-beta'],
  frames,
  text: realtimeText
}

function withModel(frame: Payload, model: string): Buffer | undefined {
  const { lens } = frame
  const session = lens && innerLens(lens, 'session')
  const name = session?.string('model')
  if (name === undefined || name === model) return undefined
  const changed = Buffer.concat(withMembers(session!, new Map([['model', JSON.stringify(model)]])))
  return Buffer.concat(withMembers(lens!, new Map([['session', changed.toString('utf8')]])))
}
