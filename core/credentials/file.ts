// Credentials that others write: into a file, or onto the output of a program.
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
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
 * Runs a program, and takes what it prints. What it says on the other output is not read, as it may be about the
 * credential. When it takes too long or prints too much, it is ended with all that it has started.
 */
export async function askCommand({ command, folder }: CommandSource, signal: AbortSignal): Promise<Grant> {
  const [program = '', ...args] = command
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  const child = spawn(program, args, {
    cwd: folder,
    // A group of its own, which can be ended as a whole.
    detached: true,
    stdio: ['ignore', 'pipe', 'ignore'],
    windowsHide: true
  })
  const giveUp = (why: string): void => {
    reject(new SourceFault(`the command ${why}`))
    child.stdout.destroy()
    endGroup(child)
  }
  const onAbort = (): void => giveUp('did not end in time')
  signal.addEventListener('abort', onAbort, { once: true })
  const printed: Buffer[] = []
  let size = 0
  child.stdout.on('data', (piece: Buffer) => {
    size += piece.length
    if (size > largest) giveUp(`printed more than ${largest} bytes`)
    else printed.push(piece)
  })
  child.on('error', (error: NodeJS.ErrnoException) => giveUp(`cannot be run (${error.code})`))
  child.on('close', (code, by) => {
    if (code === 0) resolve(Buffer.concat(printed).toString('utf8'))
    else reject(new SourceFault(`the command ${by ? `was ended by ${by}` : `ended with ${code}`}`))
  })
  try {
    return granted(await promise, 'what the command printed')
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}

function endGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // All of it has ended.
  }
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
