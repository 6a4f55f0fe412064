// Masks e-mail addresses in prompts and answers, and blocks answers with forbidden words.
import { definePlugin, GatewayError } from 'sluice/plugin'

const mail = /[\w.+-]+@[\w-]+\.[\w.-]+/g

export default definePlugin({
  name: 'guard',
  summary: 'Masks e-mail addresses and blocks words.',
  options: {
    block: {
      type: 'array',
      items: { type: 'string', description: 'A word.' },
      default: [],
      description: 'Words that no prompt and no answer may have.'
    }
  },
  setup({ block }) {
    const check = (text) => {
      if (block.some((word) => text.includes(word)))
        throw new GatewayError('content_blocked', 'The content was blocked.')
      return text.replace(mail, '[mail]')
    }
    return {
      onRequest: (exchange) => exchange.prompt.forEach(({ text }) => void check(text)),
      onAttempt: (_exchange, attempt) => attempt.editText(({ text }) => check(text)),
      // Whole blocks: what is blocked has not been shown in part, and an address may be cut anywhere.
      onResponse: () => ({ whole: true, text: ({ text }) => check(text) })
    }
  }
})
