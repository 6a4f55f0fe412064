// Makes forms like those that clients send.

/** A part of a form: a text, or a file. */
export interface FormPart {
  name: string
  value: string | Buffer
  filename?: string
  type?: string
}

/** The bytes of a form, and its media type. */
export function formOf(parts: readonly FormPart[], boundary = 'the-boundary'): { body: Buffer; type: string } {
  const pieces = parts.flatMap(({ name, value, filename, type }) => {
    const file = filename === undefined ? '' : `; filename="${filename}"`
    const kind = type === undefined ? '' : `Content-Type: ${type}\r\n`
    return [
      Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; name="${name}"${file}\r\n${kind}\r\n`),
      Buffer.from(value),
      Buffer.from('\r\n')
    ]
  })
  return {
    body: Buffer.concat([...pieces, Buffer.from(`--${boundary}--\r\n`)]),
    type: `multipart/form-data; boundary=${boundary}`
  }
}
