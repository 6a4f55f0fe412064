// What clients presented is remembered until its key changes.
import t from 'tap'
import type { Caller } from '../../../core/catalogue/caller.ts'
import { Presented } from '../../../core/tenancy/presented.ts'

t.test('what one key changes leaves the others remembered', (t) => {
  const presented = new Presented()
  const callers = ['one', 'one', 'two'].map((key) => ({ key }) as Caller)
  const secrets = ['sk-new', 'sk-old', 'sk-two']
  const found = (): boolean[] => secrets.map((secret, at) => presented.get(secret) === callers[at])
  secrets.forEach((secret, at) => presented.add(secret, callers[at]!))
  t.strictSame(found(), [true, true, true])
  presented.forget('three')
  presented.forget('one')
  t.strictSame(found(), [false, false, true], 'both secrets of the key that changed are forgotten')
  presented.clear()
  t.strictSame(found(), [false, false, false])
  t.end()
})
