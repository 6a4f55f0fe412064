// Members of a request that an upstream could understand differently than the gateway does are refused.
import t from 'tap'
import { gateway, testModel } from '../kit/gateway.ts'
import { Upstream } from '../kit/upstream.ts'
import { chatAnswer } from '../kit/workbench.ts'

const messages = '"messages":[{"role":"user","content":"Hi"}]'
const plain = `"model":"${testModel}",${messages}`

t.test('a member that differs from a known one in case alone is refused by its name', async (t) => {
  const upstream = await Upstream.start(t)
  const { ask } = await gateway(t, {}, { upstreams: { upstream } })
  const send = (members: string) => ask({ path: '/v1/chat/completions', body: `{${members}}` })
  const lookalikes: [string, string][] = [
    ['MODEL', 'model'],
    ['Model', 'model'],
    ['mOdel', 'model'],
    ['ſtream', 'stream'],
    ['STREAM', 'stream'],
    ['Max_Tokens', 'max_tokens'],
    ['max_toKens', 'max_tokens'],
    ['MAX_COMPLETION_TOKENS', 'max_completion_tokens'],
    ['Max_output_tokenſ', 'max_output_tokens'],
    ['N', 'n'],
    ['Stream_Options', 'stream_options'],
    ['Messages', 'messages'],
    ['TOOLS', 'tools'],
    ['Temperature', 'temperature'],
    ['İnput', 'input'],
    ['ınput', 'input'],
    ['model\\u0000', 'model'],
    ['model\\u0000x', 'model'],
    ['\\u004dodel', 'model'],
    ['\\u017ftream', 'stream']
  ]
  for (const [name, known] of lookalikes) {
    const reply = await send(`${plain},"${name}":1`)
    t.match(
      [reply.status, reply.json().error],
      [400, { code: 'invalid_field', message: new RegExp(`write \`${known}\``) }],
      name
    )
    t.equal(reply.json().error.param, JSON.parse(`"${name}"`))
  }
  const options = await send(`${plain},"stream":true,"stream_options":{"include_usage":true,"Include_Usage":false}`)
  t.match([options.status, options.json().error], [400, { param: 'stream_options.Include_Usage' }])
  // What readers that do not care for case do, by another way: whatever is a letter of the name to them.
  const letters = Array.from({ length: 0x11000 - 0x80 }, (_, at) => String.fromCodePoint(0x80 + at)).filter((letter) =>
    /[a-z]/iu.test(letter)
  )
  t.ok(letters.length >= 2)
  for (const letter of letters) {
    for (const known of ['stream', 'max_tokens']) {
      const name = Array.from(known, (own) => (new RegExp(own, 'iu').test(letter) ? letter : own)).join('')
      if (name !== known) t.equal((await send(`${plain},${JSON.stringify(name)}:1`)).status, 400, name)
    }
  }
  t.equal(upstream.requests.length, 0)
  upstream.json(chatAnswer())
  t.equal(
    (await send(`${plain},"Vendor_Option":1,"modelX":1,"X_model":2,"größe":3,"Metadata":{"MODEL":"x"}`)).status,
    200,
    'others are not our business'
  )
})

t.test('names with capitals of their own have lookalikes, too, and so have those inside of a member', async (t) => {
  const upstream = await Upstream.start(t)
  const { ask } = await gateway(t, {}, { upstreams: { upstream } })
  const contents = '"contents":[{"role":"user","parts":[{"text":"Hi"}]}]'
  for (const [members, param] of [
    ['"GenerationConfig":{"maxOutputTokens":5}', 'GenerationConfig'],
    ['"generationconfig":{"maxOutputTokens":5}', 'generationconfig'],
    ['"GENERATION_CONFIG":{"maxOutputTokens":5}', 'GENERATION_CONFIG'],
    ['"generationConfig":{"maxOutputTokens":1,"MaxOutputTokens":5}', 'generationConfig.MaxOutputTokens'],
    ['"generationConfig":{"maxOutputToken\u017f":5}', 'generationConfig.maxOutputTokenſ'],
    ['"generation_config":{"Candidate_Count":5}', 'generation_config.Candidate_Count'],
    ['"Contents":[]', 'Contents']
  ] as const) {
    const body = `{${contents},${members}}`
    const reply = await ask({ path: `/v1beta/models/${testModel}:generateContent`, body })
    t.equal(reply.status, 400, members)
    t.match(reply.json().error.message, JSON.stringify(param), members)
  }
  t.equal(upstream.requests.length, 0)
})

t.test('a flag of another type is refused, null is none', async (t) => {
  const upstream = await Upstream.start(t)
  const { ask } = await gateway(t, {}, { upstreams: { upstream } })
  const send = (members: string) => ask({ path: '/v1/chat/completions', body: `{${plain},${members}}` })
  for (const [members, param] of [
    ['"stream":1', 'stream'],
    ['"stream":0', 'stream'],
    ['"stream":"true"', 'stream'],
    ['"stream":[]', 'stream'],
    ['"stream":{}', 'stream'],
    ['"stream_options":1', 'stream_options'],
    ['"stream_options":[]', 'stream_options'],
    ['"stream_options":"include_usage"', 'stream_options'],
    ['"stream_options":{"include_usage":1}', 'stream_options.include_usage'],
    ['"stream_options":{"include_usage":"true"}', 'stream_options.include_usage'],
    ['"stream_options":{"include_usage":false,"include_usage":true}', 'stream_options'],
    [`"stream_options":{"x":"${'x'.repeat(5000)}"}`, 'stream_options'],
    [`"max_tokens":1${'0'.repeat(500)}`, 'max_tokens'],
    [`"n":0.${'0'.repeat(5000)}1`, 'n']
  ] as const) {
    const reply = await send(members)
    t.match([reply.status, reply.json().error], [400, { code: 'invalid_field', param }], members.slice(0, 80))
    t.ok(reply.text.length < 500)
  }
  for (const members of [
    '"stream":null',
    '"stream":false',
    '"stream_options":null',
    '"stream":false,"stream_options":{"include_usage":null}'
  ]) {
    upstream.json(chatAnswer())
    t.equal((await send(members)).status, 200, members)
  }
  const long = await ask({ path: '/v1/chat/completions', body: `{"model":"${'x'.repeat(2000)}",${messages}}` })
  t.match([long.status, long.json().error], [400, { code: 'invalid_field', param: 'model' }])
})
