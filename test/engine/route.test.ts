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

t.test('a path that is not there is answered in the envelope of whoever asks', async (t) => {
  const { ask } = await gateway(t)
  const openai = { error: { code: 'route_not_found', message: /nothing at/ } }
  const anthropic = { type: 'error', error: { type: 'not_found_error', message: /nothing at/ } }
  const gemini = { error: { code: 404, status: 'NOT_FOUND', message: /nothing at/ } }
  const version = { 'anthropic-version': '2023-06-01' }
  const cases = [
    ['/v1/chat/nothing', {}, openai],
    ['/v1/files', {}, openai],
    ['/nothing', {}, openai],
    ['/v1/messages/batches', {}, anthropic],
    ['/messages', {}, anthropic],
    ['/v1/v1/messages/batches', version, anthropic],
    ['/v1/files', version, anthropic],
    ['/v1beta/files', {}, gemini],
    ['/v1beta', {}, gemini],
    ['/v1/files', { 'x-goog-api-key': 'sk-nobody' }, gemini]
  ] as const
  for (const [path, headers, said] of cases) {
    const reply = await ask({ method: 'POST', path, headers, body: {} })
    t.match([reply.status, reply.json()], [404, said], `${path} ${JSON.stringify(headers)}`)
  }
  for (const [path, said] of [
    ['/v1/messages', { type: 'error' }],
    ['/v1beta/models/demo:generateContent', { error: { code: 405 } }],
    ['/v1/chat/completions', { error: { code: 'method_not_allowed' } }]
  ] as const) {
    const reply = await ask({ method: 'PUT', path })
    t.match([reply.status, reply.json()], [405, said], path)
  }
})
