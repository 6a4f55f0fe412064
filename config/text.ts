// The bytes of a configuration file as text.
import type { Finding } from './report.ts'

/** Undefined when they are no text in UTF-8; what is wrong is complained of. */
export function decode(bytes: Buffer, complain: (finding: Finding) => void): string | undefined {
  const nul = bytes.indexOf(0)
  if (nul >= 0) {
    const lines = bytes.subarray(0, nul).toString('latin1').split('\n')
    const at = { line: lines.length, column: lines.at(-1)!.length + 1 }
    complain({ at, message: 'a NUL byte: the file must be text in UTF-8' })
    return undefined
  }
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    complain({ message: 'the file must be text in UTF-8' })
    return undefined
  }
}
