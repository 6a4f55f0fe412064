// Copies of listening sockets. All copies of one have the same queue, and as long as anybody has one, whoever waits in
// it is not lost. Node cannot make a copy within a process: a child process gets the socket and sends it back.
import { spawn } from 'node:child_process'
import type { Server } from 'node:net'
import { passedError } from './bind.ts'
import type { BoundSocket } from './bind.ts'

/** A bound socket that somebody owns, who closes it. */
export interface OwnSocket extends BoundSocket {
  close(): void
}

/** How long the child may take, in milliseconds: its start is a tenth of a second of CPU time. */
const patience = 60_000

/** The first descriptor behind the standard streams of the child. */
const firstDescriptor = 3

/**
 * What the child runs: sends each socket back by the handle that Node has of it, which is not documented, or says what
 * it is instead. It neither reads nor accepts anything, and ends with its channel.
 */
const program = `
process.on('message', () => {})
for (let fd = ${firstDescriptor}; fd < ${firstDescriptor} + Number(process.argv[1]); fd++) {
  let handle, fault
  try { handle = new (require('net').Socket)({ fd, readable: false, writable: false })._handle }
  catch (error) { fault = error.message }
  if (handle && handle.constructor.name !== 'TCP') fault = 'it has no address with a port'
  else if (handle && handle.getpeername({}) === 0) fault = 'it is a connection'
  process.send({ fault }, fault ? undefined : handle)
}`

/**
 * Makes a copy of each of these listening sockets. They are of the thread that calls, and are closed with it, wherever
 * it ends.
 * @throws Error when one is no TCP socket that can listen, or the child fails
 */
export async function copiesOf(descriptors: readonly number[]): Promise<readonly OwnSocket[]> {
  const child = spawn(process.execPath, ['-e', program, String(descriptors.length)], {
    stdio: ['ignore', 'ignore', 'ignore', ...descriptors, 'ipc'],
    env: { ...process.env, NODE_OPTIONS: '' }
  })
  const copies: OwnSocket[] = []
  const timer = setTimeout(() => child.kill('SIGKILL'), patience)
  try {
    return await new Promise((resolve, reject) => {
      const fail = (why: string): void => reject(new Error(`a listening socket could not be copied: ${why}`))
      child.on('message', ({ fault }: { fault?: string }, handle: unknown) => {
        const fd = descriptors[copies.length]!
        if (!handle) return reject(passedError({ fd }, 'listen', fault ?? 'it could not be sent'))
        copies.push(handle as Server & OwnSocket)
        if (copies.length === descriptors.length) resolve(copies)
      })
      child.on('error', ({ message }) => fail(message))
      child.on('exit', (code, signal) => fail(`its process ended with ${signal ?? `exit code ${code}`}`))
    })
  } catch (error) {
    for (const copy of copies) copy.close()
    throw error
  } finally {
    clearTimeout(timer)
    if (child.connected) child.disconnect()
  }
}
