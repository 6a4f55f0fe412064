// Carries a request to a channel of another protocol and its answer back; the same protocol on both sides costs nothing.
import { definePlugin } from '../../core/contract/contract.ts'

export default definePlugin({
  name: 'protocol-translate',
  summary: 'Translates between the client\'s protocol and the channel\'s. When both are the same, bytes pass untouched and no stage is added.',
  options: {},
  setup() {
    // Every channel that config accepts today speaks the protocol of the endpoints it is chosen for: nothing to translate.
    return {}
  }
})
