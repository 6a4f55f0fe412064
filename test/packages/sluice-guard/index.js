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
  rehearses: true,
  setup({ block }) {
    const check = (text) => {
      const word = block.find((one) => text.includes(one))
      if (word !== undefined)
        throw new GatewayError('content_blocked', 'The content was blocked.', {
          reason: { by: 'plugin', what: `the content has the word ${word}`, where: 'chain: guard.block', remedy: null }
        })
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
