// Credentials that others write: into a file, or onto the output of a program.
import { execFile } from 'node:child_process'
import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { SourceFault, sendable, tokenExpiryOf } from './grant.ts'
import type { Grant } from './grant.ts'
import type { CommandSource, FileSource } from './source.ts'

/** The most bytes that are read. */
const largest = 64 * 1024

/** Reads a file with a credential. */
export async function askFile({ file }: FileSource): Promise<Grant> {
  return granted(await textOfFile(file), file)
}

/**
 * Runs a program, and takes what it prints. What it says on the other output is not shown, as it may be about the
 * credential.
 */
export async function askCommand({ command, folder }: CommandSource, signal: AbortSignal): Promise<Grant> {
  const [program = '', ...args] = command
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  const options = { cwd: folder, maxBuffer: largest, signal, killSignal: 'SIGKILL' as const, windowsHide: true }
  execFile(program, args, options, (error, printed) => {
    if (!error) return resolve(printed)
    if (signal.aborted) return reject(new SourceFault('the command did not end in time'))
    if (error.code === 'ERR_CHILD_PROCESS_STDIO_MAXBUFFER')
      return reject(new SourceFault(`the command printed more than ${largest} bytes`))
    const how = typeof error.code === 'number' ? `ended with ${error.code}` : `cannot be run (${error.code})`
    reject(new SourceFault(`the command ${error.signal ? `was ended by ${error.signal}` : how}`))
  }).stdin?.end()
  return granted(await promise, 'what the command printed')
}

/**
 * The text of a small file.
 * @throws SourceFault when it cannot be read
 */
export async function textOfFile(file: string): Promise<string> {
  let handle
  try {
    // Without O_NONBLOCK, opening a pipe would wait for its writer.
    handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK)
    if (!(await handle.stat()).isFile()) throw new SourceFault(`${file} is not a file`)
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(largest + 1), 0, largest + 1, 0)
    if (bytesRead > largest) throw new SourceFault(`${file} is larger than ${largest} bytes`)
    return buffer.toString('utf8', 0, bytesRead)
  } catch (error) {
    if (error instanceof SourceFault) throw error
    throw new SourceFault(`${file} cannot be read (${(error as NodeJS.ErrnoException).code})`)
  } finally {
    await handle?.close()
  }
}

function granted(text: string, who: string): Grant {
  const secret = sendable(text, who)
  return { secret, expiresAt: tokenExpiryOf(secret) }
}
