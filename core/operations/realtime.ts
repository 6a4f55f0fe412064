// The operation that opens realtime sessions over WebSocket.
import type { ServedOperation } from '../contract/served.ts'

/** https://platform.openai.com/docs/guides/realtime-websocket */
export const realtime: ServedOperation = {
  name: 'realtime',
  endpoint: 'realtime',
  summary: 'Opens a WebSocket for a conversation in text and sound, in JSON events.',
  method: 'GET',
  paths: ['/v1/realtime'],
  protocol: 'openai-realtime',
  body: 'socket',
  model: { in: 'query', name: 'model' },
  stream: 'always',
  answers: ['frames'],
  subprotocol: 'realtime',
  upstream: {
    openai: {
      protocol: 'openai-realtime',
      method: 'GET',
      target: ({ model }) => `/realtime?model=${encodeURIComponent(model)}`
    }
  },
  metering: { outputLimits: [], turns: true },
  required: ['model'],
  parameters: { model: { type: 'string', description: 'A model of the model list, for the whole session.' } }
}
