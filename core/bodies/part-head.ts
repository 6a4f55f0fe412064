// What the head of a form's part says: the name of a field or file, in words that every reader understands alike.

import { isUtf8 } from 'node:buffer'
import { readParameters, token } from './parameters.ts'

/** A form cannot be taken; the message says why, and goes on a sentence about the form. */
export class FormError extends Error {}

/** A field, or a file when it has a name for one. */
export interface PartHead {
  name: string
  filename: string | undefined
  /** Media type without its parameters, in small letters. */
  type: string
}

const mostLines = 32
/** Bytes of a name. What describes a form is JSON with these for keys, which may be three times as long. */
const longestName = 256
const line = new RegExp(`^(${token}):[\\t ]*([\\t\\x20-\\x7e\\x80-\\xff]*)$`)
const mediaType = new RegExp(`^${token}/${token}`)
/** Letters and digits, and what nobody trims, unfolds or decodes; a space only where nobody trims it. */
const plainName = /^(?! )[\p{L}\p{M}\p{N}_.\-:[\] ]+(?<! )$/u
/** What a reader may look for further parts in. */
const holdsParts = /^(?:multipart|message)\b|\(/i

/**
 * Reads a head, given in Latin1 and without its empty line. What RFC 7578 §4 advises against, and readers therefore
 * read differently, is refused: an upstream that found another name or value there would run something else than what
 * was held.
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
  // The name of a file may say again, encoded, what stands beside it.
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
  // Who ends it at the first quotation mark would find parameters behind that.
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
 * Readers trim names, decode what browsers escape in them (`%22`) and what mail does (`=?utf-8?q?…?=`), and have one
 * that sets the charset of all fields (RFC 7578 §4.6).
 */
function isPlain(name: string): boolean {
  const bytes = Buffer.from(name, 'latin1')
  return isUtf8(bytes) && plainName.test(bytes.toString()) && name.toLowerCase() !== '_charset_'
}

/** What some readers take for a field, and others for a file or for other text. */
function checkField(name: string, parameters: ReadonlyMap<string, string>, type: string, essence: string): void {
  if (parameters.has('filename*') || essence === 'application/octet-stream')
    throw new FormError(`the file in its part \`${shown(name)}\` has no \`filename\``)
  const more = readParameters(type.slice(essence.length))
  const charset = more?.get('charset') ?? 'utf-8'
  if (!more || more.size > Number(more.has('charset')) || !isUnicode(charset))
    throw new FormError(`its field \`${shown(name)}\` is not in UTF-8, or has a type with other parameters`)
}

/** Whether text of this charset is UTF-8. */
export function isUnicode(charset: string): boolean {
  return /^(?:utf-?8|us-ascii)$/i.test(charset)
}

function utf8(latin1: string): string {
  return Buffer.from(latin1, 'latin1').toString()
}

function shown(name: string): string {
  return utf8(name).slice(0, 100)
}
