// Runs the contract test on plugins with one mistake each, which it must find. contract.test.ts runs this file and
// reads its output.
import t from 'tap'
import { definePlugin, slot } from '../../core/contract/contract.ts'
import type { Hooks, Plugin, PluginContext } from '../../core/contract/contract.ts'
import { pluginContract } from './contract.ts'

const never = slot('mistakes/never').of<string>()

function mistaken(name: string, setup: (context: PluginContext) => Hooks, more: Partial<Plugin> = {}): void {
  pluginContract(
    t,
    {
      ...definePlugin({ name, summary: 'Makes a mistake.', options: {}, setup: (_options, context) => setup(context) }),
      ...more
    },
    { text: 'call 555-1234 now' }
  )
}

let taken = 0
mistaken('keeps-what-it-took', () => ({
  onRequest(exchange) {
    if (++taken > 2) throw new Error('nothing is left')
    exchange.defer(({ kind }) => void (kind === 'completed' && taken--))
  }
}))
mistaken('leaves-a-slot-empty', () => ({}), { provides: [never] })
mistaken('leaves-a-timer', () => {
  setTimeout(() => {}, 4000)
  return {}
})
mistaken('fails-when-told', () => ({ onSettled: (exchange) => void exchange.attempts[0]!.usage!.usage.input }))
mistaken('looks-at-pieces', () => ({
  onResponse: () => ({ text: ({ text }) => text.replace(/\d{3}-\d{4}/, '[number]') })
}))
mistaken('reads-chat-alone', () => ({
  onResponse: () => ({
    observe: (message) => void (message.kind === 'json' && (message.json() as { choices: unknown[] }).choices.length)
  })
}))
mistaken('knows-chat-alone', () => ({
  onRequest: (exchange) => void (exchange.body.fields.json('messages') as unknown[]).length
}))
mistaken('wants-other-names', () => ({}), { summary: 'no sentence' })
