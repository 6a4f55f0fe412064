// What each vendor would object to in a request, by its documented rules and by refusals that its users report: one
// complaint for each fault.

type Json = any
type Complain = (complaint: string) => void

/** The signature that each vendor makes and accepts in tests. Any other one belongs to another vendor. */
export const proofs = { openai: 'ENC', anthropic: 'SIG', gemini: 'U0lH' } as const

/**
 * Complaints about a body for chat completions, Responses, Messages or generateContent; none when the vendor would
 * accept it.
 */
export const judges: Readonly<Record<string, (body: Json) => string[]>> = {
  C: judge(chat),
  R: judge(responses),
  M: judge(messages),
  G: judge(contents)
}

function judge(look: (body: Json, complain: Complain) => void): (body: Json) => string[] {
  return (body) => {
    const complaints: string[] = []
    look(body, (complaint) => complaints.push(complaint))
    if (/sluice1\.|c2x1aWNlMS/.test(JSON.stringify(body))) complaints.push('a signature of the gateway')
    return complaints
  }
}

const isBlank = (text: unknown): boolean => typeof text !== 'string' || text.trim() === ''
const isObject = (value: unknown): boolean => typeof value === 'object' && value !== null && !Array.isArray(value)
const aName = /^[a-zA-Z0-9_-]{1,64}$/
const aPicture = /^(https?:\/\/|data:image\/(png|jpeg|gif|webp);base64,)/

function onlyKnown(body: Json, known: string, complain: Complain): void {
  for (const key of Object.keys(body)) if (!known.split(' ').includes(key)) complain(`unknown member ${key}`)
}

/** OpenAI's rules for strict schemas. */
function strictly(schema: Json, complain: Complain): void {
  if (!isObject(schema)) return
  if (schema.type === 'object' || schema.properties) {
    if (schema.additionalProperties !== false) complain('a strict object that is open')
    if (Object.keys(schema.properties ?? {}).some((name) => !schema.required?.includes(name)))
      complain('a strict object with an optional member')
  }
  for (const inner of [
    ...Object.values(schema.properties ?? {}),
    ...Object.values(schema.$defs ?? {}),
    schema.items,
    ...(schema.anyOf ?? [])
  ])
    strictly(inner, complain)
}

function saysJson(format: Json, conversation: Json, complain: Complain): void {
  if (format?.type === 'json_object' && !/json/i.test(JSON.stringify(conversation)))
    complain('an answer in JSON without the word')
}

/** https://platform.openai.com/docs/api-reference/chat */
function chat(body: Json, complain: Complain): void {
  onlyKnown(
    body,
    'model messages stream stream_options max_completion_tokens temperature top_p presence_penalty frequency_penalty seed stop n logprobs top_logprobs reasoning_effort verbosity response_format tools tool_choice parallel_tool_calls user safety_identifier service_tier prompt_cache_key',
    complain
  )
  let open: string[] = []
  for (const { role, content, tool_calls: calls, tool_call_id: id, refusal } of body.messages) {
    if (role !== 'tool' && open.length > 0) complain('a call without a result')
    if (role === 'tool') {
      if (typeof content !== 'string') complain('a result that is no text')
      if (!open.includes(id)) complain('a result without a call')
      open = open.filter((one) => one !== id)
    } else if (role === 'assistant') {
      if (!calls && !refusal && typeof content !== 'string') complain('an assistant who says nothing')
      for (const {
        id,
        function: { name, arguments: input }
      } of calls ?? []) {
        if (!id || id.length > 40 || open.includes(id)) complain(`the id of a call: ${id}`)
        if (!aName.test(name)) complain(`the name of a call: ${name}`)
        if (!isObject(JSON.parse(input))) complain('arguments that are no object')
        open.push(id)
      }
    } else
      for (const part of Array.isArray(content) ? content : [{ type: 'text', text: content, alone: true }])
        chatPart(part, complain)
  }
  if (open.length > 0) complain('a call without a result')
  openaiTools(
    (body.tools ?? []).map((tool: Json) => tool.function),
    body,
    complain
  )
  const named = body.tool_choice?.function?.name
  if (named && !body.tools.some((tool: Json) => tool.function.name === named)) complain('the choice of no tool')
  const format = body.response_format
  if (format?.json_schema?.strict) strictly(format.json_schema.schema, complain)
  saysJson(format, body.messages, complain)
}

function chatPart(part: Json, complain: Complain): void {
  switch (part.type) {
    case 'text':
      if (typeof part.text !== 'string' || (part.text === '' && !part.alone)) complain('a text without text')
      break
    case 'image_url':
      if (!aPicture.test(part.image_url.url)) complain('a picture that is none')
      break
    case 'file':
      if (!part.file.filename || !part.file.file_data.startsWith('data:')) complain('a file without name or data')
      break
    default:
      complain(`a part of type ${part.type}`)
  }
}

function openaiTools(tools: readonly Json[], body: Json, complain: Complain): void {
  if (body.tools?.length === 0 || (!body.tools && body.tool_choice !== undefined))
    complain('no tools, and talk of them')
  if (new Set(tools.map(({ name }) => name)).size < tools.length) complain('two tools of a name')
  for (const { name, parameters, strict } of tools) {
    if (!aName.test(name)) complain(`the name of a tool: ${name}`)
    if (strict) strictly(parameters, complain)
  }
}

/** https://platform.openai.com/docs/api-reference/responses */
function responses(body: Json, complain: Complain): void {
  onlyKnown(
    body,
    'model input store stream max_output_tokens temperature top_p top_logprobs include reasoning text tools tool_choice parallel_tool_calls user safety_identifier metadata service_tier prompt_cache_key',
    complain
  )
  if (body.max_output_tokens < 16) complain('a limit below 16')
  const open = new Set<string>()
  const known = new Set<string>()
  for (const item of body.input) {
    if (item.type === 'message') {
      const parts = Array.isArray(item.content) ? item.content : [{ type: 'input_text', text: item.content }]
      if (parts.length === 0 || parts.some((part: Json) => !isResponsesPart(part)))
        complain('a message with a part that is none')
    } else if (/^(function|custom_tool)_call$/.test(item.type)) {
      if (!item.call_id || item.call_id.length > 64 || known.has(item.call_id))
        complain(`the id of a call: ${item.call_id}`)
      if (!aName.test(item.name)) complain(`the name of a call: ${item.name}`)
      known.add(item.call_id)
      open.add(`${item.type}_output ${item.call_id}`)
    } else if (item.type.endsWith('_output')) {
      if (!open.delete(`${item.type} ${item.call_id}`)) complain('a result without a call')
    } else if (item.type !== 'reasoning' || item.encrypted_content !== proofs.openai)
      complain(`an item of type ${item.type}`)
  }
  if (open.size > 0) complain('a call without a result')
  openaiTools(body.tools ?? [], body, complain)
  if (body.text?.format?.strict) strictly(body.text.format.schema, complain)
  saysJson(body.text?.format, body.input, complain)
}

function isResponsesPart({ type, text, image_url: url, file_data: data, filename }: Json): boolean {
  return type === 'input_text'
    ? typeof text === 'string'
    : type === 'input_image'
      ? aPicture.test(url)
      : type === 'input_file' && data.startsWith('data:') && Boolean(filename)
}

/** https://platform.claude.com/docs/en/api/messages */
function messages(body: Json, complain: Complain): void {
  onlyKnown(
    body,
    'model max_tokens system messages stream thinking output_config temperature top_p top_k stop_sequences tools tool_choice metadata service_tier',
    complain
  )
  const thinks = body.thinking && body.thinking.type !== 'disabled'
  if (!(body.max_tokens > 0) || body.temperature > 1 || (body.thinking?.budget_tokens ?? 0) >= body.max_tokens)
    complain('limits')
  if (thinks && (['any', 'tool'].includes(body.tool_choice?.type) || (body.temperature ?? body.top_k) !== undefined))
    complain('thoughts beside what they do not go with')
  if (body.system?.some(({ text }: Json) => isBlank(text))) complain('a blank instruction')
  const known = new Set<string>()
  let open: string[] = []
  let last = 'assistant'
  for (const { role, content } of body.messages) {
    if (role === last || content.length === 0) complain('turns that do not alternate, or are empty')
    last = role
    const results = content.filter(({ type }: Json) => type === 'tool_result').map(({ tool_use_id: id }: Json) => id)
    if ([...results].sort().join() !== [...open].sort().join()) complain('calls and results that do not match')
    if (content.slice(0, results.length).some(({ type }: Json) => type !== 'tool_result'))
      complain('results that do not come first')
    open = []
    for (const block of content) {
      messageBlock(block, role, complain)
      if (block.type !== 'tool_use') continue
      if (known.has(block.id)) complain(`an id used again: ${block.id}`)
      known.add(block.id)
      open.push(block.id)
    }
  }
  const asked = body.messages.findLastIndex(
    ({ role, content }: Json) => role === 'user' && !content.some(({ type }: Json) => type === 'tool_result')
  )
  if (
    body.thinking?.type === 'enabled' &&
    body.messages
      .slice(asked + 1)
      .some(({ role, content: [first] }: Json) => role === 'assistant' && !/thinking/.test(first.type))
  )
    complain('a turn of calls that does not begin with thoughts')
  if (last !== 'user') complain("an end that is not the user's")
  for (const { name, input_schema: schema } of body.tools ?? [])
    if (!aName.test(name) || schema?.type !== 'object') complain(`the tool ${name}`)
  if (body.tool_choice && !body.tools?.length) complain('no tools, and talk of them')
}

function messageBlock(block: Json, role: string, complain: Complain): void {
  const { type, source } = block
  const isOwn = role === 'assistant'
  const isGood =
    type === 'text'
      ? !isBlank(block.text)
      : type === 'image'
        ? !isOwn && (source.type !== 'base64' || /^image\/(png|jpeg|gif|webp)$/.test(source.media_type))
        : type === 'document'
          ? !isOwn &&
            (source.type !== 'base64' || source.media_type === 'application/pdf') &&
            (source.type !== 'text' || !isBlank(source.data))
          : type === 'tool_use'
            ? isOwn && /^[a-zA-Z0-9_-]+$/.test(block.id) && aName.test(block.name) && isObject(block.input)
            : type === 'tool_result'
              ? block.content.every((inner: Json) => inner.type !== 'text' || !isBlank(inner.text))
              : type === 'thinking'
                ? isOwn && block.signature === proofs.anthropic
                : type === 'redacted_thinking' && isOwn && !isBlank(block.data)
  if (!isGood) complain(`a block: ${JSON.stringify(block).slice(0, 80)}`)
}

/** https://ai.google.dev/api/generate-content */
function contents(body: Json, complain: Complain): void {
  onlyKnown(body, 'contents systemInstruction tools toolConfig generationConfig', complain)
  if (body.contents[0].role !== 'user' || body.contents.at(-1).role !== 'user')
    complain('a conversation that the user neither begins nor ends')
  let open: Json[] = []
  for (const { role, parts } of body.contents) {
    const called = parts.flatMap((part: Json) => part.functionCall ?? [])
    const told = parts.flatMap((part: Json) => part.functionResponse ?? [])
    if (parts.length === 0 || (told.length > 0 && told.length < parts.length)) complain('parts that do not go together')
    if (open.map(({ id, name }) => `${id} ${name}`).join() !== told.map(({ id, name }: Json) => `${id} ${name}`).join())
      complain('calls and results that do not match')
    if (called.length > 0 && (role !== 'model' || !parts.find((part: Json) => part.functionCall).thoughtSignature))
      complain('a call without a signature')
    for (const part of parts) contentPart(part, complain)
    open = called
  }
  for (const { name, parameters } of (body.tools ?? []).flatMap((tool: Json) => tool.functionDeclarations)) {
    if (!/^[a-zA-Z_][a-zA-Z0-9_.-]{0,63}$/.test(name)) complain(`the name of a tool: ${name}`)
    if (parameters && Object.keys(parameters.properties ?? {}).length === 0) complain('parameters without any')
    if (parameters) openApi(parameters, complain)
  }
  const { mode, allowedFunctionNames: allowed } = body.toolConfig?.functionCallingConfig ?? {}
  if ((mode === 'ANY' && !body.tools) || (allowed && mode !== 'ANY')) complain('a choice that is none')
}

function contentPart(part: Json, complain: Complain): void {
  const kinds = ['text', 'inlineData', 'fileData', 'functionCall', 'functionResponse'].filter(
    (kind) => part[kind] !== undefined
  )
  if (kinds.length !== 1 || (part.text !== undefined && isBlank(part.text) && !part.thoughtSignature))
    complain(`a part: ${JSON.stringify(part).slice(0, 80)}`)
  if (![undefined, proofs.gemini, 'skip_thought_signature_validator'].includes(part.thoughtSignature))
    complain("another's signature")
  if (part.functionCall && !isObject(part.functionCall.args)) complain('arguments that are no object')
  if (part.functionResponse && !isObject(part.functionResponse.response)) complain('a result that is no object')
}

/** The subset of OpenAPI that Google accepts. */
function openApi(schema: Json, complain: Complain): void {
  onlyKnown(
    schema,
    'type format title description nullable enum maxItems minItems properties required minProperties maxProperties minLength maxLength pattern anyOf default items minimum maximum',
    complain
  )
  if (schema.type === undefined ? !schema.anyOf : !/^(OBJECT|STRING|NUMBER|INTEGER|BOOLEAN|ARRAY)$/.test(schema.type))
    complain(`a schema of type ${schema.type}`)
  if (schema.enum && (schema.type !== 'STRING' || schema.enum.some((value: unknown) => typeof value !== 'string')))
    complain('a list of values that are no text')
  if (schema.required?.some((name: string) => !schema.properties?.[name]) || (schema.type === 'ARRAY' && !schema.items))
    complain('a schema that wants what it does not have')
  for (const inner of [
    ...Object.values(schema.properties ?? {}),
    ...(schema.anyOf ?? []),
    ...(schema.items ? [schema.items] : [])
  ])
    openApi(inner, complain)
}
