// Plugins that configuration tests name in their chains: every kind of option, and no behaviour.
import { definePlugin } from '../../core/contract/contract.ts'
import type { Plugin } from '../../core/contract/contract.ts'

const setup = (): object => ({})

const list: readonly Plugin[] = [
  definePlugin({ name: 'auth', summary: 'No options.', options: {}, setup }),
  definePlugin({
    name: 'log',
    summary: 'Options of all kinds.',
    options: {
      sink: { type: 'string', default: 'stdout', description: 'Where to.' },
      bodies: { type: 'boolean', default: false, description: 'Bodies too.' },
      level: { type: 'string', enum: ['info', 'debug'], default: 'info', description: 'How much.' },
      flush: { type: 'string', format: 'duration', default: '100ms', description: 'How often.' },
      list: { type: 'array', items: { type: 'string', description: 'A word.' }, default: [], description: 'Words.' },
      nested: {
        type: 'object',
        description: 'More.',
        default: {},
        properties: { depth: { type: 'integer', minimum: 1, default: 2, description: 'Depth.' } }
      }
    },
    setup
  }),
  definePlugin({
    name: 'needy',
    summary: 'A required option.',
    options: { must: { type: 'string', description: 'Needed.' } },
    required: ['must'],
    setup
  }),
  definePlugin({
    name: 'shy',
    summary: 'A secret option.',
    setup,
    options: { token: { type: 'string', secret: true, default: '', description: 'Secret.' } }
  })
]

/** By name, as the loader takes them. */
export const plugins: ReadonlyMap<string, Plugin> = new Map(list.map((plugin) => [plugin.name, plugin]))
