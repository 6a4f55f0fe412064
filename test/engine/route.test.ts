// Requests for what is not there: whoever wrote the base address otherwise is told how it is written.
import t from 'tap'
import { gateway } from '../kit/gateway.ts'

t.test('a path that is nearly right is answered with the right one', async (t) => {
  const { ask } = await gateway(t)
  const post = (path: string) => ask({ path, body: { model: 'demo', messages: [] } })
  for (const [path, remedy] of [
    ['/chat/completions', /The base address ends in \/v1: \/v1\/chat\/completions is there/],
    ['//chat/completions', /ends in \/v1: \/v1\/chat\/completions/],
    ['/v1/chat/completions/', /surplus slash .*: \/v1\/chat\/completions is there/],
    ['/v1//chat/completions', /surplus slash .*: \/v1\/chat\/completions is there/],
    ['//v1/chat/completions', /surplus slash/],
    ['/v1/v1/chat/completions', /must not end in \/v1 .*: \/v1\/chat\/completions is there/]
  ] as const) {
    const reply = await post(path)
    t.match([reply.status, reply.json().error], [404, { code: 'route_not_found', message: remedy }], path)
  }
  const models = await ask({ path: '/models/' })
  t.match([models.status, models.json().error.message], [404, /ends in \/v1: \/v1\/models is there/])
  for (const path of ['/', '/v1', '/v1/nothing', '/nothing/chat/completions', `/${'x'.repeat(5000)}/`]) {
    const { status, text } = await post(path)
    t.equal(status, 404)
    t.notMatch(text, /is there/, path.slice(0, 30))
    t.ok(text.length < 500)
  }
  const wrong = await ask({ path: '/v1/chat/completions' })
  t.match([wrong.status, wrong.headers['allow']], [405, 'POST'])
})
