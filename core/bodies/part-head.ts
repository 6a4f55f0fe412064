// What the head of a form's part says: the name of a field or file, in words that every reader understands alike.

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
const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
const line = new RegExp(`^(${token}):[\\t ]*([\\t\\x20-\\x7e\\x80-\\xff]*)$`)
const parameter = new RegExp(`[\\t ]*;[\\t ]*(${token})=(?:"((?:[^"\\\\]|\\\\.)*)"|(${token}))[\\t ]*`, 'y')
const mediaType = new RegExp(`^${token}/${token}`)

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
  const parameters = readParameters(disposition, /^form-data/i)
  const name = parameters.get('name') ?? ''
  if (name === '' || name.includes('\\')) throw new FormError('a part of it has no name, or one with a backslash')
  if (name.length > longestName) throw new FormError(`the name of a part is longer than ${longestName} bytes`)
  const filename = parameters.get('filename')
  const essence = mediaType.exec(type)?.[0].toLowerCase() ?? 'text/plain'
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

/** Those of a disposition, in Latin1 and with their backslashes. */
function readParameters(value: string, kind: RegExp): Map<string, string> {
  const found = new Map<string, string>()
  let at = kind.exec(value)?.[0].length ?? 0
  while (at > 0 && at < value.length) {
    parameter.lastIndex = at
    const [all, key, quoted, plain] = parameter.exec(value) ?? []
    const name = key?.toLowerCase() ?? ''
    // A name may be continued or encoded by a star; that of a file, where it only says again what stands beside it, is
    // known.
    if (all === undefined || found.has(name) || (name.includes('*') && name !== 'filename*'))
      throw new FormError('the Content-Disposition of a part is malformed')
    found.set(name, quoted ?? plain!)
    at += all.length
  }
  if (at === 0) throw new FormError('a part of it is no form-data')
  return found
}

/** What some readers take for a field, and others for a file or for other text. */
function checkField(name: string, parameters: ReadonlyMap<string, string>, type: string, essence: string): void {
  if (parameters.has('filename*') || essence === 'application/octet-stream')
    throw new FormError(`the file in its part \`${shown(name)}\` has no \`filename\``)
  const charset = /;\s*charset\s*=\s*"?([^\s;"]*)/i.exec(type)?.[1] ?? 'utf-8'
  if (!/^(?:utf-?8|us-ascii)$/i.test(charset)) throw new FormError(`its field \`${shown(name)}\` is not in UTF-8`)
}

function utf8(latin1: string): string {
  return Buffer.from(latin1, 'latin1').toString()
}

function shown(name: string): string {
  return utf8(name).slice(0, 100)
}
