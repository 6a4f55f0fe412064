// Reads the head of a form's part: the name of a field or file. It refuses what readers could understand differently.

import { isUtf8 } from 'node:buffer'
import { readParameters, token } from './parameters.ts'

/** Why a form is refused. The message continues a sentence about the form. */
export class FormError extends Error {}

/** The head of a field, or of a file when it has a file name. */
export interface PartHead {
  name: string
  filename: string | undefined
  /** Media type without its parameters, in small letters. */
  type: string
}

const mostLines = 32
/**
 * The longest name, in bytes. Names are keys of the JSON that describes a form, where they may take three times as
 * much.
 */
const longestName = 256
const line = new RegExp(`^(${token}):[\\t ]*([\\t\\x20-\\x7e\\x80-\\xff]*)$`)
const mediaType = new RegExp(`^${token}/${token}`)
/**
 * Letters, digits and marks that no reader trims, unfolds or decodes. Spaces may stand inside only, as some readers
 * trim.
 */
const plainName = /^(?! )[\p{L}\p{M}\p{N}_.\-:[\] ]+(?<! )$/u
/** Media types in which a reader may look for further parts. */
const holdsParts = /^(?:multipart|message)\b|\(/i

/**
 * Reads a head, in Latin-1 and without its empty line. What RFC 7578 §4 advises against is refused, because readers
 * treat it differently: an upstream that found another name or value would do other work than an amount was held for.
 * @throws FormError when it is not the head of a field or file
 */
export function readPartHead(text: string): PartHead {
  const fields = readLines(text)
  const disposition = fields.get('content-disposition') ?? ''
  const type = fields.get('content-type') ?? 'text/plain'
  if (!/^(?:7bit|8bit|binary|)$/i.test(fields.get('content-transfer-encoding') ?? ''))
    throw new FormError('a part of it has a Content-Transfer-Encoding')
  const kind = /^form-data(?=[\t ;]|$)/i.exec(disposition)?.[0]
  if (kind === undefined) throw new FormError('a part of it is no form-data')
  // `filename*` may repeat the file name in another encoding.
  const parameters = readParameters(disposition.slice(kind.length), 'filename*')
  if (!parameters) throw new FormError('the Content-Disposition of a part is malformed')
  const name = parameters.get('name') ?? ''
  if (!isPlain(name))
    throw new FormError('a part of it has no name, or one with more than letters, digits and any of _.-:[]')
  if (name.length > longestName) throw new FormError(`the name of a part is longer than ${longestName} bytes`)
  const filename = parameters.get('filename')
  const essence = mediaType.exec(type)?.[0].toLowerCase() ?? 'text/plain'
  if (holdsParts.test(type)) throw new FormError(`its part \`${shown(name)}\` may have parts of its own`)
  if (filename === undefined) checkField(name, parameters, type, essence)
  // A reader that ends the file name at the first quotation mark would find parameters after it.
  else if (filename === '' || (filename.includes('\\"') && filename.includes(';')))
    throw new FormError(
      `the file name of its part \`${shown(name)}\` is empty, or has quotation marks and semicolons in it`
    )
  return {
    name: utf8(name),
    filename: filename === undefined ? undefined : utf8(filename.replace(/\\(["\\])/g, '$1')),
    type: essence
  }
}

function readLines(text: string): Map<string, string> {
  const fields = new Map<string, string>()
  const lines = text.split('\r\n', mostLines + 1)
  if (lines.length > mostLines) throw new FormError('the head of a part has more than 32 lines')
  for (const each of lines) {
    const [, name, value] = line.exec(each) ?? []
    if (name === undefined) throw new FormError('the head of a part is malformed')
    if (fields.has(name.toLowerCase())) throw new FormError('the head of a part has a line twice')
    fields.set(name.toLowerCase(), value!.trimEnd())
  }
  return fields
}

/**
 * Whether all readers agree on a name. Some trim names, or decode what browsers escape (`%22`) and what mail encodes
 * (`=?utf-8?q?…?=`); and the field `_charset_` sets the charset of all fields (RFC 7578 §4.6).
 */
function isPlain(name: string): boolean {
  const bytes = Buffer.from(name, 'latin1')
  return isUtf8(bytes) && plainName.test(bytes.toString()) && name.toLowerCase() !== '_charset_'
}

/** Refuses a field that some readers take for a file, or for text in another charset. */
function checkField(name: string, parameters: ReadonlyMap<string, string>, type: string, essence: string): void {
  if (parameters.has('filename*') || essence === 'application/octet-stream')
    throw new FormError(`the file in its part \`${shown(name)}\` has no \`filename\``)
  const more = readParameters(type.slice(essence.length))
  const charset = more?.get('charset') ?? 'utf-8'
  if (!more || more.size > Number(more.has('charset')) || !isUnicode(charset))
    throw new FormError(`its field \`${shown(name)}\` is not in UTF-8, or has a type with other parameters`)
}

/** Whether this charset's text is valid UTF-8. */
export function isUnicode(charset: string): boolean {
  return /^(?:utf-?8|us-ascii)$/i.test(charset)
}

function utf8(latin1: string): string {
  return Buffer.from(latin1, 'latin1').toString()
}

function shown(name: string): string {
  return utf8(name).slice(0, 100)
}
