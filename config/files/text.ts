// Decodes the bytes of a configuration file.
import { isUtf8 } from 'node:buffer'
import type { Position } from './position.ts'

const newline = 0x0a

/** Decodes UTF-8. Returns undefined, and complains of the first fault, when the bytes are not text in UTF-8. */
export function decode(
  bytes: Buffer,
  file: string,
  complain: (at: Position, message: string) => void
): string | undefined {
  const nul = bytes.indexOf(0)
  if (nul >= 0) {
    const lines = bytes.subarray(0, nul).toString('latin1').split('\n')
    const at = { file, line: lines.length, column: lines.at(-1)!.length + 1 }
    complain(at, 'a NUL byte: the file must be text in UTF-8')
    return undefined
  }
  if (isUtf8(bytes)) return bytes.toString('utf8')
  let [from, line] = [0, 1]
  for (let end = bytes.indexOf(newline); end >= 0 && isUtf8(bytes.subarray(from, end)); line++) {
    from = end + 1
    end = bytes.indexOf(newline, from)
  }
  const column = bytes.toString('utf8', from).indexOf('\ufffd') + 1
  complain({ file, line, column }, 'a character that is not in UTF-8: save the file in that encoding')
  return undefined
}
