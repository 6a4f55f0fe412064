// Reads the parts of contents.
import { isBoolean, isObject, isString } from '../fields.ts'
import type { Fields } from '../fields.ts'
import { Refusal } from '../refusal.ts'
import { isSigned } from '../words/signature.ts'
import { countTokens } from '../words/tokens.ts'
import { allowed, membersOf, wrong } from './fields.ts'

/** The medium that a token stands for. */
export type Modality = 'TEXT' | 'IMAGE' | 'VIDEO' | 'AUDIO' | 'DOCUMENT'

/** One part, as far as the simulator reads it. */
export interface Part {
  kind: 'text' | 'data' | 'call' | 'response'
  /** What was said, or the result of a function as JSON. */
  text: string
  tokens: number
  modality: Modality
  /** Only calls and responses have these. */
  name?: string
  id?: string | undefined
  signature?: string | undefined
}

const tokensPerAttachment = 85
const modalities: Readonly<Record<string, Modality>> = { image: 'IMAGE', audio: 'AUDIO', video: 'VIDEO', text: 'TEXT' }
const members = [
  'text',
  'inlineData',
  'fileData',
  'functionCall',
  'functionResponse',
  'executableCode',
  'codeExecutionResult',
  'toolCall',
  'toolResponse',
  'audioTranscription',
  'thought',
  'thoughtSignature',
  'videoMetadata',
  'mediaResolution',
  'partMetadata'
]
const modifiers = ['thought', 'thoughtSignature', 'videoMetadata', 'mediaResolution', 'partMetadata']

/** The text that the signature of a call signs, so that the signature is valid for this call only. */
export function callText(name: string, args: unknown): string {
  return `${name} ${JSON.stringify(args)}`
}

/** Accepted in place of a lost signature: https://ai.google.dev/gemini-api/docs/thought-signatures */
const anySignature = 'skip_thought_signature_validator'

/** @throws Refusal */
export function readPart(given: unknown, path: string): Part {
  const part = membersOf(given, path, members)
  const data = Object.keys(part).filter((name) => !modifiers.includes(name))
  if (data.length !== 1) throw wrong(`${path}.data`, "required oneof field 'data' must have one initialized field")
  allowed(part, path, 'thought', isBoolean, 'a boolean')
  const signature = allowed(part, path, 'thoughtSignature', isString, 'a string')
  const read = readData(data[0]!, part, path)
  if (
    signature !== undefined &&
    signature !== anySignature &&
    !isSigned(read.kind === 'call' ? read.text : '', signature)
  ) {
    throw new Refusal(400, `Thought signature is not valid at ${path}.`)
  }
  return { ...read, ...(read.kind === 'call' && { text: '' }), signature }
}

function readData(name: string, part: Fields, path: string): Part {
  const place = `${path}.${name}`
  switch (name) {
    case 'text': {
      const text = allowed(part, path, 'text', isString, 'a string')!
      return { kind: 'text', text, tokens: countTokens(text), modality: 'TEXT' }
    }
    case 'inlineData': {
      const blob = membersOf(part['inlineData'], place, ['mimeType', 'data', 'displayName'])
      const data = allowed(blob, place, 'data', isString, 'a string') ?? ''
      if (!/^[A-Za-z0-9+/_-]+={0,2}$/.test(data))
        throw new Refusal(400, `Invalid value at '${place}.data': Base64 decoding failed.`)
      return attachment(allowed(blob, place, 'mimeType', isString, 'a string') ?? '')
    }
    case 'fileData': {
      const file = membersOf(part['fileData'], place, ['mimeType', 'fileUri', 'displayName'])
      if (allowed(file, place, 'fileUri', isString, 'a string') === undefined)
        throw wrong(`${place}.file_uri`, 'file_uri must not be empty.')
      return attachment(allowed(file, place, 'mimeType', isString, 'a string') ?? '')
    }
    case 'functionCall': {
      const call = membersOf(part['functionCall'], place, ['id', 'name', 'args'])
      const args = allowed(call, place, 'args', isObject, 'an object') ?? {}
      const text = callText(nameOf(call, place), args)
      return {
        kind: 'call',
        text,
        tokens: countTokens(text),
        modality: 'TEXT',
        name: nameOf(call, place),
        id: allowed(call, place, 'id', isString, 'a string')
      }
    }
    case 'functionResponse': {
      const response = membersOf(part['functionResponse'], place, [
        'id',
        'name',
        'response',
        'parts',
        'willContinue',
        'scheduling'
      ])
      const value = allowed(response, place, 'response', isObject, 'an object')
      if (value === undefined) throw wrong(`${place}.response`, 'response must not be empty.')
      const shown = value['output'] ?? value['error'] ?? value
      const text = isString(shown) ? shown : JSON.stringify(shown)
      return {
        kind: 'response',
        text,
        tokens: countTokens(text),
        modality: 'TEXT',
        name: nameOf(response, place),
        id: allowed(response, place, 'id', isString, 'a string')
      }
    }
    default:
      return { kind: 'data', text: '', tokens: countTokens(JSON.stringify(part[name])), modality: 'TEXT' }
  }
}

function nameOf(fields: Fields, path: string): string {
  const name = allowed(fields, path, 'name', isString, 'a string')
  if (name === undefined || name === '') throw wrong(`${path}.name`, 'Name cannot be empty.')
  return name
}

function attachment(type: string): Part {
  const [family = ''] = type.split('/', 1)
  return {
    kind: 'data',
    text: '',
    tokens: tokensPerAttachment,
    modality: modalities[family.toLowerCase()] ?? 'DOCUMENT'
  }
}
