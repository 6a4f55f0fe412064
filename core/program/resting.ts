// The chain of a configuration whose channels are only tried.
import { definePlugin } from '../contract/contract.ts'

/** Stands for the chain where no request of a client comes. */
export const resting = definePlugin({
  name: 'resting',
  summary: 'Selects no channel.',
  options: {},
  setup: () => ({ selectChannel: () => undefined })
})
