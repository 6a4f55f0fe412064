// Writes messages of AWS's event stream encoding, from its description and not from the gateway's reader.
import { crc32 } from 'node:zlib'

/** Headers of text, by name. */
export type FrameHeaders = Readonly<Record<string, string>>

/** A message with these headers. */
export function frame(headers: FrameHeaders, payload: Buffer | string = ''): Buffer {
  const head = Buffer.concat(
    Object.entries(headers).map(([name, value]) => {
      const length = Buffer.alloc(2)
      length.writeUInt16BE(Buffer.byteLength(value))
      return Buffer.concat([
        Buffer.from([Buffer.byteLength(name)]),
        Buffer.from(name),
        Buffer.from([7]),
        length,
        Buffer.from(value)
      ])
    })
  )
  return framed(head, Buffer.from(payload))
}

/** A message of these bytes of headers, with both checksums. */
export function framed(head: Buffer, body: Buffer): Buffer {
  const prelude = Buffer.alloc(12)
  prelude.writeUInt32BE(16 + head.length + body.length, 0)
  prelude.writeUInt32BE(head.length, 4)
  prelude.writeUInt32BE(crc32(prelude.subarray(0, 8)), 8)
  const bytes = Buffer.concat([prelude, head, body])
  const end = Buffer.alloc(4)
  end.writeUInt32BE(crc32(bytes))
  return Buffer.concat([bytes, end])
}

/** An event whose payload is JSON. */
export function eventFrame(type: string, payload: unknown): Buffer {
  const headers = { ':message-type': 'event', ':event-type': type, ':content-type': 'application/json' }
  return frame(headers, JSON.stringify(payload))
}

/** An exception in mid-stream. */
export function exceptionFrame(type: string, message: string): Buffer {
  const headers = { ':message-type': 'exception', ':exception-type': type, ':content-type': 'application/json' }
  return frame(headers, JSON.stringify({ message }))
}
