// A plugin by which each answer says which thread has made it: `x-thread`.
import { threadId } from 'node:worker_threads'
import { definePlugin } from '../../../core/contract/contract.ts'

export default definePlugin({
  name: 'named',
  summary: 'Says which thread has made an answer.',
  options: {},
  setup: () => ({ onRequest: (exchange) => exchange.setHeader('x-thread', threadId) })
})
