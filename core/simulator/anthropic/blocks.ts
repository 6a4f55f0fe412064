// Reads the content blocks of messages.
import { isBoolean, isObject, isString, oneOf } from '../fields.ts'
import type { Fields } from '../fields.ts'
import { countTokens } from '../words/tokens.ts'
import { allowed, required, requiredText, wrong } from './fields.ts'
import { isSigned } from '../words/signature.ts'

/** One block of a message, as far as the simulator reads it. */
export interface Block {
  type: string
  /** What a person or the model said, or the result of a tool. */
  text: string
  tokens: number
  /** The id of a call, or of the call that a result belongs to. */
  callId?: string
  /** How long the prompt up to here is to stay in the cache. */
  cached?: '5m' | '1h'
}

type Role = 'user' | 'assistant' | 'system'

const tokensPerAttachment = 85
const imageTypes = ['image/jpeg', 'image/png', 'image/gif', 'image/webp'] as const
const callIds = /^[a-zA-Z0-9_-]+$/

const readers: Readonly<
  Record<string, { roles: readonly Role[]; read(block: Fields, path: string): Omit<Block, 'type'> }>
> = {
  text: { roles: ['user', 'assistant', 'system'], read: readText },
  image: { roles: ['user'], read: readImage },
  document: { roles: ['user', 'assistant'], read: readDocument },
  search_result: {
    roles: ['user'],
    read: (block, path) => readParts(required(block, path, 'content', Array.isArray, 'a valid list'), `${path}.content`)
  },
  tool_use: { roles: ['assistant'], read: readToolUse },
  tool_result: { roles: ['user'], read: readToolResult },
  thinking: { roles: ['assistant'], read: readThinking },
  redacted_thinking: { roles: ['assistant'], read: readRedacted },
  container_upload: { roles: ['user'], read: () => attachment }
}
/** Blocks of tools that run at the upstream. Their contents are not checked, and their JSON is counted. */
const ofServers = /^(server_tool_use|\w+_tool_result|mcp_tool_use|tool_reference)$/

const attachment = { text: '', tokens: tokensPerAttachment }

/** @throws Refusal */
export function readBlocks(content: unknown, path: string, role: Role): Block[] {
  if (isString(content)) {
    if (content === '') throw wrong(path, 'text content blocks must be non-empty')
    return [{ type: 'text', text: content, tokens: countTokens(content) }]
  }
  if (!Array.isArray(content)) throw wrong(path, 'Input should be a valid list')
  return content.map((block: unknown, i) => readBlock(block, `${path}.${i}`, role))
}

function readBlock(block: unknown, path: string, role: Role): Block {
  if (!isObject(block)) throw wrong(path, 'Input should be a valid dictionary')
  const type = requiredText(block, path, 'type')
  const reader = Object.hasOwn(readers, type) ? readers[type] : undefined
  const cached = allowed(block, path, 'cache_control', isObject, 'a valid dictionary')
  const marked = cached && { cached: readTtl(cached, `${path}.cache_control`) }
  if (!reader) {
    if (ofServers.test(type)) return { type, text: '', tokens: countTokens(JSON.stringify(block)), ...marked }
    throw wrong(
      path,
      `Input tag '${type}' found using 'type' does not match any of the expected tags: ${Object.keys(readers).join(', ')}`
    )
  }
  if (!reader.roles.includes(role))
    throw wrong(path, `\`${type}\` blocks are not allowed in messages of the role \`${role}\``)
  return { type, ...reader.read(block, path), ...marked }
}

/** @throws Refusal */
export function readTtl(control: Fields, path: string): '5m' | '1h' {
  required(control, path, 'type', oneOf('ephemeral'), "'ephemeral'")
  return (allowed(control, path, 'ttl', oneOf('5m', '1h'), "'5m' or '1h'") ?? '5m') as '5m' | '1h'
}

function readText(block: Fields, path: string): Omit<Block, 'type'> {
  const text = requiredText(block, path, 'text')
  if (text === '') throw wrong(`${path}.text`, 'text content blocks must be non-empty')
  return { text, tokens: countTokens(text) }
}

function readImage(block: Fields, path: string): Omit<Block, 'type'> {
  readSource(block, path, imageTypes)
  return attachment
}

function readDocument(block: Fields, path: string): Omit<Block, 'type'> {
  const source = readSource(block, path, ['application/pdf'])
  if (source['type'] === 'text') {
    const text = requiredText(source, `${path}.source`, 'data')
    return { text: '', tokens: countTokens(text) }
  }
  return attachment
}

function readSource(block: Fields, path: string, types: readonly string[]): Fields {
  const source = required(block, path, 'source', isObject, 'a valid dictionary')
  const place = `${path}.source`
  switch (
    required(
      source,
      place,
      'type',
      oneOf('base64', 'url', 'file', 'text', 'content'),
      "one of 'base64', 'url', 'file', 'text', 'content'"
    )
  ) {
    case 'base64': {
      const type = requiredText(source, `${place}.base64`, 'media_type')
      if (!types.includes(type))
        throw wrong(`${place}.base64.media_type`, `Input should be ${types.map((known) => `'${known}'`).join(' or ')}`)
      const data = requiredText(source, `${place}.base64`, 'data')
      if (data === '' || !/^[A-Za-z0-9+/]+={0,2}$/.test(data)) throw wrong(`${place}.base64`, 'invalid base64 data')
      break
    }
    case 'url':
      if (!/^https?:\/\//.test(requiredText(source, `${place}.url`, 'url')))
        throw wrong(`${place}.url.url`, 'Only HTTP URLs are supported')
      break
    case 'file':
      requiredText(source, `${place}.file`, 'file_id')
  }
  return source
}

function readToolUse(block: Fields, path: string): Omit<Block, 'type'> {
  const callId = readCallId(block, path, 'id')
  const name = requiredText(block, path, 'name')
  const input = required(block, path, 'input', isObject, 'a valid dictionary')
  return { text: '', tokens: countTokens(name) + countTokens(JSON.stringify(input)), callId }
}

function readToolResult(block: Fields, path: string): Omit<Block, 'type'> {
  const callId = readCallId(block, path, 'tool_use_id')
  allowed(block, path, 'is_error', isBoolean, 'a valid boolean')
  const content = block['content'] ?? ''
  if (isString(content)) return { text: content, tokens: countTokens(content), callId }
  if (!Array.isArray(content)) throw wrong(`${path}.content`, 'Input should be a valid list')
  return { ...readParts(content, `${path}.content`), callId }
}

/** Reads the blocks inside a block. */
function readParts(content: readonly unknown[], path: string): Omit<Block, 'type'> {
  const parts = content.map((part, i) => readBlock(part, `${path}.${i}`, 'user'))
  return {
    text: parts
      .map(({ text }) => text)
      .filter((text) => text !== '')
      .join('\n'),
    tokens: parts.reduce((sum, { tokens }) => sum + tokens, 0)
  }
}

function readCallId(block: Fields, path: string, name: string): string {
  const id = requiredText(block, path, name)
  if (!callIds.test(id)) throw wrong(`${path}.${name}`, "String should match pattern '^[a-zA-Z0-9_-]+$'")
  return id
}

function readThinking(block: Fields, path: string): Omit<Block, 'type'> {
  const text = requiredText(block, path, 'thinking')
  if (!isSigned(text, block['signature'])) throw wrong(path, 'Invalid `signature` in `thinking` block')
  return { text: '', tokens: countTokens(text) }
}

function readRedacted(block: Fields, path: string): Omit<Block, 'type'> {
  if (!isSigned('', block['data'])) throw wrong(path, 'Invalid `data` in `redacted_thinking` block')
  return { text: '', tokens: 0 }
}
