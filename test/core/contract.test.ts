// The types and brands of the contract: what a plugin may get, and what two copies of the contract know of each other.
import { cpSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import { asGatewayError } from '../../core/errors.ts'
import type * as contract from '../../core/contract/contract.ts'
import {
  caller,
  contractOf,
  contractVersion,
  definePlugin,
  GatewayError,
  sharedKey,
  slot,
  usage
} from '../../core/contract/contract.ts'

const root = join(import.meta.dirname, '../..')

t.test(
  'a slot that is not among the needs of a plugin is a type error where it is got, and another kind of value where it is found',
  (t) => {
    const other = slot('test/other').of<number>()
    // The compiler checks this file: a line that should be an error and is none fails `npm run check`.
    definePlugin({
      name: 'typed',
      summary: 'For the compiler.',
      options: {
        limit: { type: 'integer', description: 'A number.' },
        name: { type: 'string', description: 'A text.' }
      },
      required: ['name'],
      needs: [caller, other],
      setup({ limit, name }, { share }) {
        const text: string = name
        // @ts-expect-error an option that is neither required nor has a default may be undefined
        const number: number = limit
        const counts: Map<string, number> = share(sharedKey<Map<string, number>>('counts'), () => new Map())
        // @ts-expect-error a key carries the type of its value
        share(sharedKey<Set<string>>('set'), () => new Map<string, number>())
        return {
          onRequest(exchange) {
            const tenant: string = exchange.get(caller).tenant
            const count: number = exchange.get(other)
            // @ts-expect-error the slot is not in needs
            exchange.get(usage)
            // @ts-expect-error a slot of the same type with another name is not in needs either
            exchange.get(slot('test/another').of<number>())
            return void [text, number, counts, tenant, count, exchange.find(usage)?.usage.input]
          },
          // @ts-expect-error whether the needs are filled is not known when a request was refused
          onSettled: (exchange) => void exchange.get(caller)
        }
      }
    })
    definePlugin({
      name: 'needless',
      summary: 'For the compiler.',
      options: {},
      // @ts-expect-error without needs there is nothing to get
      setup: () => ({ onRequest: (exchange) => void exchange.get(caller) })
    })
    t.end()
  }
)

t.test('two copies of the contract in one process understand each other', async (t) => {
  const folder = t.testdir({})
  cpSync(join(root, 'core'), join(folder, 'core'), { recursive: true })
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
  cpSync(join(root, 'package.json'), join(folder, 'package.json'))
  const copy = (await import(pathToFileURL(join(folder, 'core/contract/contract.ts')).href)) as typeof contract
  t.not(copy.GatewayError, GatewayError, 'it is another copy')
  t.equal(copy.caller, caller)
  t.equal(copy.slot('new in the copy').of<string>(), slot('new in the copy').of<string>())
  const theirs = new copy.GatewayError('content_blocked', 'No.')
  t.ok(theirs instanceof GatewayError)
  t.ok(new GatewayError('content_blocked', 'No.') instanceof copy.GatewayError)
  t.notOk(new Error('No.') instanceof GatewayError)
  t.equal(asGatewayError(theirs), theirs)
  Object.assign(theirs, { code: 'of_a_later_version' })
  t.equal(asGatewayError(theirs).code, 'internal_error', 'a code that this copy does not know is no answer')
  const plugin = copy.definePlugin({ name: 'theirs', summary: 'Is theirs.', options: {}, setup: () => ({}) })
  t.equal(contractOf(plugin), contractVersion)
  t.equal(contractOf({ ...plugin, name: 'renamed' }), contractVersion)
  for (const nothing of [undefined, null, {}, 'text', { name: 'x', setup() {} }])
    t.equal(contractOf(nothing), undefined)
})
