// Random requests of the kind that clients of each protocol really send: repeated and empty ids, blank texts, schemas
// of every kind, pictures in results.
import fc from 'fast-check'
import { proofs } from './judges.ts'

type Json = any
type Any = fc.Arbitrary<Json>

const said = fc.constantFrom('Hello', 'a "q" \\ \n', '漢字😀', '{"a":1}', ' lead')
/** Includes blank strings and half of a surrogate pair. */
const anything = fc.oneof({ weight: 4, arbitrary: said }, fc.constantFrom('', ' ', '\u200b', '\ud83d'))
const picture = 'aW1hZ2U='
const dataUrl = fc.constantFrom('png', 'jpg', 'PNG', 'webp').map((type) => `data:image/${type};base64,${picture}`)
const anyName = fc.constantFrom('f', 'get_weather', 'mcp.tool/x', 'a'.repeat(70), '1st')
const legalName = anyName.map((name) => name.replace(/[^a-zA-Z0-9_-]/g, '_').slice(0, 64))
const callId = fc.constantFrom(
  'call_1',
  'call_2',
  'toolu_3',
  'functions.f:0',
  'x'.repeat(70),
  `call_${'0'.repeat(32)}_0_0`,
  ''
)
const input = fc.constantFrom({}, { a: 1 }, { a: '😀"' })

const leaf: Any = fc.constantFrom<Json>(
  { type: 'string', format: 'email', minLength: 1 },
  { type: 'integer', minimum: 0, exclusiveMaximum: 9 },
  { type: ['string', 'null'] },
  { type: ['string', 'number', 'null'] },
  { enum: ['a', null] },
  { type: 'integer', enum: [1, 2] },
  { const: 'x' },
  { type: 'array' },
  { type: 'array', prefixItems: [{ type: 'string' }], items: false },
  { type: 'object', additionalProperties: { type: 'string' } },
  {},
  true,
  { $ref: '#/$defs/node' },
  { type: 'boolean', default: false },
  { not: { type: 'null' } }
)
const { object }: { object: Any } = fc.letrec((tie) => ({
  schema: fc.oneof(
    { maxDepth: 3 },
    leaf,
    tie('object'),
    tie('schema').map((items) => ({ type: 'array', items })),
    tie('schema').map((one) => ({ anyOf: [one, { type: 'null' }] })),
    fc.tuple(tie('schema'), tie('schema')).map((oneOf) => ({ oneOf, description: 'd' })),
    tie('object').map((one) => ({ allOf: [one, { description: 'x' }] }))
  ),
  object: fc
    .tuple(
      fc.dictionary(fc.constantFrom('a', 'b', 'type', 'items', 'enum'), tie('schema'), {
        maxKeys: 3,
        noNullPrototype: true
      }),
      fc.boolean(),
      fc.boolean()
    )
    .map(([properties, demands, closed]) => ({
      type: 'object',
      properties,
      ...(demands && { required: Object.keys(properties) }),
      ...(closed && { additionalProperties: false })
    }))
}))
const node = {
  $defs: { node: { type: 'object', properties: { next: { $ref: '#/$defs/node' }, v: { type: 'string' } } } }
}
const parameters: Any = fc.oneof(
  object.map((schema: Json) => ({ ...schema, ...node })),
  fc.constantFrom<Json>({}, { type: 'object' }, { type: 'object', properties: {} })
)

const maybe = (value: Any): Any => fc.option(value, { nil: undefined })
const some = (value: Any, most = 3): Any => fc.array(value, { minLength: 1, maxLength: most })
/** Removes members that are undefined. */
const plain = (value: Json): Json => JSON.parse(JSON.stringify(value))
const record = (members: Record<string, Any>): Any => fc.record(members, { noNullPrototype: true }).map(plain)
/** A conversation of these exchanges, with words of the user before and after them. */
const conversation = (exchange: Any, user: (text: string) => Json): Any =>
  fc
    .tuple(fc.array(exchange, { maxLength: 4 }), said, said)
    .map(([turns, first, last]) => [user(first), ...turns.flat(), user(last)])
const named = (names: Any): Any => fc.uniqueArray(names, { maxLength: 3 })

const chatCall = fc
  .tuple(callId, anyName, input)
  .map(([id, name, args]) => ({ id, type: 'function', function: { name, arguments: JSON.stringify(args) } }))
const chatParts = some(
  fc.oneof(
    anything.map((text) => ({ type: 'text', text })),
    dataUrl.map((url) => ({ type: 'image_url', image_url: { url } })),
    fc.constant({ type: 'file', file: { filename: 'a.pdf', file_data: `data:application/pdf;base64,${picture}` } })
  )
)
const chatExchange = fc.oneof(
  fc.oneof(anything, chatParts).map((content) => [{ role: 'user', content }]),
  anything.map((content) => [{ role: 'system', content }]),
  fc
    .tuple(fc.option(anything), maybe(said))
    .map(([content, thoughts]) => [plain({ role: 'assistant', content: content ?? 'x', reasoning_content: thoughts })]),
  fc
    .tuple(fc.option(anything), some(chatCall), fc.oneof(anything, chatParts))
    .map(([content, calls, result]) => [
      { role: 'assistant', content, tool_calls: calls },
      ...calls.map(({ id }: Json) => ({ role: 'tool', tool_call_id: id, content: result }))
    ])
)
const schemaName = { name: 'n', strict: false }
const chat = fc
  .tuple(
    conversation(chatExchange, (content) => ({ role: 'user', content })),
    named(anyName),
    some(parameters),
    record({
      reasoning_effort: maybe(fc.constantFrom('none', 'minimal', 'high', 'max')),
      temperature: maybe(fc.constantFrom(0, 1, 2)),
      top_p: maybe(fc.constant(0.5)),
      max_tokens: maybe(fc.constantFrom(1, 100, 5000)),
      response_format: maybe(
        fc.oneof(object.map((schema) => ({ type: 'json_schema', json_schema: { ...schemaName, schema } })))
      )
    }),
    fc.constantFrom(undefined, 'auto', 'none', 'required')
  )
  .map(([messages, names, schemas, rest, choice]) =>
    plain({
      model: 'm',
      messages,
      ...rest,
      ...(names.length > 0 && {
        tools: names.map((name: string, at: number) => ({
          type: 'function',
          function: { name, parameters: schemas[at % schemas.length] }
        })),
        tool_choice: choice
      })
    })
  )

const responsesCall = fc.oneof(
  fc.tuple(callId, anyName, input).map(([call_id, name, args]) => ({
    type: 'function_call',
    id: 'fc_1',
    call_id,
    name,
    arguments: JSON.stringify(args)
  })),
  fc
    .tuple(callId, anyName, anything)
    .map(([call_id, name, text]) => ({ type: 'custom_tool_call', call_id, name, input: text }))
)
const proof = fc.constantFrom(
  proofs.openai,
  'sluice1.',
  `sluice1.gemini.signature..${proofs.gemini}`,
  `sluice1.anthropic.signature..${proofs.anthropic}`,
  `sluice1.gemini.call..${proofs.gemini}`
)
const responsesParts = some(
  fc.oneof(
    anything.map((text) => ({ type: 'input_text', text })),
    dataUrl.map((image_url) => ({ type: 'input_image', image_url }))
  )
)
const responsesExchange = fc.oneof(
  fc.oneof(anything, responsesParts).map((content) => [{ role: 'user', content }]),
  anything.map((content) => [{ role: 'developer', content }]),
  anything.map((text) => [
    { type: 'message', id: 'msg_1', role: 'assistant', content: [{ type: 'output_text', text, annotations: [] }] }
  ]),
  fc
    .tuple(
      fc.array(proof, { maxLength: 1 }),
      fc.uniqueArray(responsesCall, { minLength: 1, maxLength: 3, selector: ({ call_id }) => call_id }),
      fc.oneof(anything, responsesParts)
    )
    .map(([proofs, calls, output]) => [
      ...proofs.map((encrypted_content: string) => ({ type: 'reasoning', id: 'rs_1', summary: [], encrypted_content })),
      ...calls,
      ...calls.map(({ type, call_id }: Json) => ({ type: `${type}_output`, call_id, output }))
    ])
)
const responses = fc
  .tuple(
    conversation(responsesExchange, (content) => ({ role: 'user', content })),
    named(anyName),
    some(parameters),
    fc.boolean()
  )
  .map(([input, names, schemas, custom]) =>
    plain({
      model: 'm',
      input,
      ...(names.length > 0 && {
        tools: names.map((name: string, at: number) =>
          custom ? { type: 'custom', name } : { type: 'function', name, parameters: schemas[at % schemas.length] }
        )
      })
    })
  )

const block = fc.oneof(
  said.map((text) => ({ type: 'text', text })),
  fc.constantFrom<Json>(
    { type: 'image', source: { type: 'base64', media_type: 'image/png', data: picture } },
    { type: 'document', title: 't', source: { type: 'text', media_type: 'text/plain', data: 'x' } },
    { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: picture } }
  )
)
const thoughts = fc.array(
  fc
    .constantFrom(
      proofs.anthropic,
      'sluice1.',
      `sluice1.openai.encrypted.rs_1.${proofs.openai}`,
      `sluice1.gemini.call..${proofs.gemini}`
    )
    .map((signature) => ({ type: 'thinking', thinking: 'Hm', signature })),
  { maxLength: 1 }
)
const use = fc.tuple(legalName, input).map(([name, given]) => ({ type: 'tool_use', id: '', name, input: given }))
const messagesExchange = fc.oneof(
  fc.tuple(thoughts, said, some(block)).map(([before, text, content]) => [
    { role: 'assistant', content: [...before, { type: 'text', text }] },
    { role: 'user', content }
  ]),
  fc
    .tuple(thoughts, some(use), fc.oneof(anything, some(block)), fc.array(block, { maxLength: 1 }), fc.boolean())
    .map(([before, uses, content, after, is_error]) => {
      const calls = uses.map((one: Json, at: number) => ({ ...one, id: `toolu_${at}${'x'.repeat(40)}` }))
      return [
        { role: 'assistant', content: [...before, ...calls] },
        {
          role: 'user',
          content: [
            ...calls.map(({ id }: Json) => ({ type: 'tool_result', tool_use_id: id, content, is_error })),
            ...after
          ]
        }
      ]
    })
)
const messages = fc
  .tuple(
    conversation(messagesExchange, (content) => ({ role: 'user', content })),
    named(legalName),
    some(parameters),
    record({
      system: maybe(said),
      thinking: maybe(
        fc.constantFrom<Json>({ type: 'enabled', budget_tokens: 2000 }, { type: 'adaptive' }, { type: 'disabled' })
      ),
      output_config: maybe(object.map((schema: Json) => ({ format: { type: 'json_schema', schema } })))
    }),
    fc.boolean()
  )
  .map(([turns, names, schemas, rest, strict]) => ({
    model: 'm',
    max_tokens: 5000,
    messages: turns,
    ...rest,
    ...(names.length > 0 && {
      tools: names.map((name: string, at: number) => ({
        name,
        strict,
        input_schema: { ...schemas[at % schemas.length], type: 'object' }
      }))
    })
  }))

const signature = fc.constantFrom<Json>(
  {},
  {},
  { thoughtSignature: proofs.gemini },
  { thoughtSignature: Buffer.from(`sluice1.anthropic.signature..${proofs.anthropic}`).toString('base64') }
)
const contentsExchange = fc.oneof(
  fc
    .tuple(
      signature,
      said,
      some(
        fc.oneof(
          said.map((text) => ({ text })),
          fc.constant({ inlineData: { mimeType: 'image/png', data: picture } })
        )
      )
    )
    .map(([proven, text, parts]) => [
      { role: 'model', parts: [{ text: 'Hm', thought: true, ...proven }, { text }] },
      { role: 'user', parts }
    ]),
  fc
    .tuple(
      some(fc.tuple(anyName, input)),
      signature,
      fc.boolean(),
      fc.constantFrom<Json>({ output: '' }, { output: ' ' }, { result: [1] }, { error: 'bad' }, {})
    )
    .map(([made, proven, ids, response]) => {
      const calls = made.map(([name, args]: Json, at: number) => ({ ...(ids && { id: `c${at}` }), name, args }))
      return [
        {
          role: 'model',
          parts: calls.map((functionCall: Json, at: number) => ({ functionCall, ...(at === 0 && proven) }))
        },
        {
          role: 'user',
          parts: calls.map(({ args: _args, ...call }: Json) => ({ functionResponse: { ...call, response } }))
        }
      ]
    })
)
const contents = fc
  .tuple(
    conversation(contentsExchange, (text) => ({ role: 'user', parts: [{ text }] })),
    named(anyName),
    some(parameters),
    maybe(object),
    fc.boolean()
  )
  .map(([turns, names, schemas, responseJsonSchema, json]) =>
    plain({
      contents: turns,
      ...(names.length > 0 && {
        tools: [
          {
            functionDeclarations: names.map((name: string, at: number) => ({
              name,
              parametersJsonSchema: schemas[at % schemas.length]
            }))
          }
        ]
      }),
      ...(json && { generationConfig: { responseMimeType: 'application/json', responseJsonSchema } })
    })
  )

/** Requests by the letters of `test/kit/pairs.ts`. */
export const asks: Readonly<Record<string, Any>> = { C: chat, R: responses, M: messages, G: contents }
