// The protocol of OpenAI's realtime sessions: JSON events in both directions over one connection.
import { withMembers, withValues } from '../../bodies/splice.ts'
import { asObject } from '../object.ts'
import { openaiChat } from '../openai-chat/protocol.ts'
import type { FrameProtocol } from '../frames.ts'
import type { Payload, Protocol } from '../protocol.ts'
import { readRealtimeUsage } from '../usage/openai-tokens.ts'
import { withoutStream } from '../whole.ts'
import { realtimeText } from './realtime-text.ts'
import { looksInto, RealtimeWatch } from './realtime-watch.ts'

const frames: FrameProtocol = {
  looksInto,
  watch: () => new RealtimeWatch(),
  withModel: (frame, model) => changed(frame, ['session', 'response'], { model: JSON.stringify(model) }),
  // The settings of an earlier version have a key with which a client could reach the upstream directly.
  shown: (frame, model) =>
    changed(frame, ['session'], {
      client_secret: 'null',
      ...(model !== undefined && { model: JSON.stringify(model) })
    }),
  error: ({ type, message, code, param }, event) => {
    // Clients match errors by the id of their own event; some also require an id for the error itself.
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
  errorPlaces: [
    ['error'],
    ['message'],
    ['item', 'error'],
    ['response', 'status_details'],
    ['response', 'output', '*', 'error']
  ],
  // The header of an earlier version, which some upstreams still need.
  passedHeaders: ['openai-beta'],
  frames,
  text: realtimeText
}

/** The frame with `members` replaced in each of the objects under `keys`; undefined when nothing changes. */
function changed(
  frame: Payload,
  keys: readonly string[],
  members: Readonly<Record<string, string>>
): Buffer | undefined {
  const changes = new Map<string, Buffer[]>()
  for (const key of keys) {
    const within = frame.inside(key)
    if (!within) continue
    const other = Object.entries(members).filter(
      ([name, json]) =>
        within.has(name) && within.type(name) !== 'null' && within.slice(name)!.toString('utf8') !== json
    )
    if (other.length > 0) changes.set(key, withMembers(within, new Map(other)))
  }
  return changes.size > 0 ? Buffer.concat(withValues(frame.lens!, changes)) : undefined
}
