// Reads and writes data URLs, base64 and media types.
import type { MediaPart, MediaSource } from './request.ts'
import { invalid } from './untranslatable.ts'

const dataUrl = /^data:([^,;]*)((?:;[^,;]*)*),/i
const base64 = /^[A-Za-z0-9+/_-]*={0,2}\s*$/

/**
 * The source that an address stands for: the data in a data URL, or a place. `param`: the member to name in the refusal
 * of anything else.
 */
export function readUrl(url: string, param: string): MediaSource {
  if (!/^data:/i.test(url)) {
    if (!URL.canParse(url)) throw invalid(param, 'an address or a data URL')
    return { kind: 'url', url }
  }
  const [head = '', mimeType = '', options = ''] = dataUrl.exec(url) ?? []
  if (head === '' || !/;base64$/i.test(options)) throw invalid(param, 'a data URL with a media type and base64')
  return readData(mimeType, url.slice(head.length), param)
}

/** Media types that clients write and not every provider knows, with the usual names. */
const known: ReadonlyMap<string, string> = new Map([
  ['image/jpg', 'image/jpeg'],
  ['image/pjpeg', 'image/jpeg'],
  ['application/x-pdf', 'application/pdf']
])

type DataSource = MediaSource & { kind: 'data' }

/** Reads data given as base64. */
export function readData(mimeType: string, data: string, param: string): DataSource {
  if (!/^[\w.+-]+\/[\w.+-]+$/.test(mimeType)) throw invalid(param, 'data with a media type, such as image/png')
  if (!base64.test(data)) throw invalid(param, 'base64')
  const name = mimeType.toLowerCase()
  return { kind: 'data', mimeType: known.get(name) ?? name, data: standardBase64(data) }
}

/** Base64 in the standard alphabet and with padding, from either alphabet. */
export function standardBase64(data: string): string {
  const standard = data.trimEnd().replaceAll('-', '+').replaceAll('_', '/')
  return standard.padEnd(Math.ceil(standard.length / 4) * 4, '=')
}

export function writeDataUrl({ mimeType, data }: { mimeType: string; data: string }): string {
  return `data:${mimeType};base64,${data}`
}

/** The kind of part for a media type. Text is a document, too. */
export function kindOf(mimeType: string): MediaPart['type'] {
  const [type] = mimeType.split('/')
  return type === 'image' || type === 'audio' || type === 'video' ? type : 'document'
}

/** The text in base64 data. */
export function readText(data: string): string {
  return Buffer.from(data, 'base64').toString('utf8')
}

/** A plain text document as one text. Its name comes first. */
export function textOf({ data }: { data: string }, name: string | undefined): string {
  return name === undefined ? readText(data) : `${name}\n${readText(data)}`
}

/** A file name with an ending, by which OpenAI knows the type: titles of documents have none. */
export function fileName(name = 'document', mimeType: string): string {
  return /\.\w{1,8}$/.test(name) ? name : `${name}.${mimeType.split('/')[1]}`
}

export function writeText(text: string): string {
  return Buffer.from(text, 'utf8').toString('base64')
}
