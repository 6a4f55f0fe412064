// What the editor of gateway.yaml offers where the cursor stands, by the real schema.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { offersAt } from '../../core/admin/console/app/pages/configuration/completion.ts'

const schema = JSON.parse(readFileSync(join(import.meta.dirname, '../../config/gateway.schema.json'), 'utf8'))

/** The labels that are offered at the `|` of a text. */
function offered(marked: string): string[] {
  const at = marked.indexOf('|')
  return offersAt(marked.slice(0, at) + marked.slice(at + 1), at, schema).map(({ label }) => label)
}

const file = `channels:
  openai:
    protocol: openai
    models: { gpt: gpt }
keys:
- name: a
  tenant: acme
`

t.test('keys and values are offered by where they stand', async (t) => {
  t.ok(offered('|').includes('channels'), 'sections')
  t.same(offered('chan|'), ['channels'])
  t.ok(offered(`${file}mo|`).includes('models'))
  t.notOk(offered(`${file}ke|`).includes('keys'), 'what is there already is not offered')
  t.ok(offered(file.replace('    models', '    base|\n    models')).includes('base_url'))
  t.notOk(offered(file.replace('    models', '    prot|\n    models')).includes('protocol'))
  t.ok(offered('channels:\n  x:\n    protocol: |').includes('anthropic'), 'words of a choice')
  t.same(offered('channels:\n  x:\n    protocol: gem|'), ['gemini'])
  t.same(offered('channels:\n  x:\n    enabled: t|'), ['true'])
  t.ok(offered(`${file}- na|`).includes('name'), 'an item of a list in the column of its key')
  t.notOk(offered('keys:\n  - name: a\n    na|').includes('name'), 'what this item has is not offered')
  t.ok(offered('keys:\n  - na|\n  - name: b').includes('name'), 'what the next one has is')
  t.ok(offered('keys:\n  - name: a\n    ten|').includes('tenant'), 'and of one that is indented')
  t.ok(offered('tenants:\n  acme:\n    projects:\n      web:\n        bud|').includes('budget'))
})

t.test('what is open within a line counts', async (t) => {
  t.ok(offered('models:\n  x: { price: { inp|').includes('input'))
  t.notOk(offered('models:\n  x: { price: { input: 1, inp|').includes('input'))
  t.ok(offered('models:\n  x: { price: { input: 1, out| } }').includes('output'))
  t.ok(offered('tenants: { acme: { bud|').includes('budget'))
  t.ok(offered('chain: [au|').includes('auth'), 'plugins as words')
  t.ok(offered('chain:\n  - au|').includes('auth'))
  t.ok(offered('chain:\n  - route:\n      |').length > 0, 'options of a plugin')
})

t.test('nothing is offered in comments, in quotes and where any text may stand', async (t) => {
  t.same(offered('# chan|'), [])
  t.same(offered('listen: {} # ho|'), [])
  t.same(offered('keys:\n  - key: "sk|'), [])
  t.same(offered('models:\n  |'), [], 'names are free')
  t.same(offered('no_such:\n  thing: |'), [])
})
