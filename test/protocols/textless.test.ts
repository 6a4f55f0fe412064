// Members that JavaScript can make no text of, in errors and answers of upstreams.
import t from 'tap'
import { callsIn } from '../../core/protocols/counting/hosted-tools.ts'
import { protocols } from '../../core/protocols/index.ts'

const textless = { toString: 0 }

t.test('errors are read whatever their members are', (t) => {
  const names = [
    'type',
    'code',
    'status',
    'message',
    'param',
    'details',
    'reason',
    'domain',
    'error_code',
    'unsupported'
  ]
  for (const [name, protocol] of Object.entries(protocols)) {
    const error = Object.fromEntries(names.map((member) => [member, 'x']))
    for (const member of names)
      for (const odd of [textless, [textless]]) {
        const inside = { ...error, [member]: odd }
        for (const body of [
          inside,
          { error: inside },
          { error: { ...error, details: inside } },
          { error: { ...error, details: [inside] } },
          [{ error: inside }]
        ])
          t.doesNotThrow(() => protocol.readError(body, {}), `${name}: ${JSON.stringify(body)}`)
      }
  }
  t.end()
})

t.test('what has no type is no call', (t) => {
  t.same(callsIn([{ type: 'web_search_call' }, { type: textless }, { type: [textless] }]), { web_search: 1 })
  t.end()
})
