// Whether the other side of a connection on this machine has read what was sent to it, as the kernel knows it.
import { readFile } from 'node:fs/promises'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

/**
 * Waits until the process at the other end has read all bytes that were written, or has closed. Other systems than
 * Linux do not tell: there nothing is waited for.
 */
export async function readByPeer(socket: Socket): Promise<void> {
  const { localPort, remotePort } = socket
  if (localPort === undefined || remotePort === undefined) return
  const ours = ends(localPort, remotePort)
  const theirs = ends(remotePort, localPort)
  for (let waited = 0; waited < 60_000 && !socket.destroyed; waited += 5) {
    const table = await readFile('/proc/net/tcp', 'latin1').catch(() => '')
    const [unsent] = queues(table, ours)
    const [, unread] = queues(table, theirs)
    if (socket.writableLength === 0 && unsent === 0 && unread === 0) return
    await sleep(5)
  }
}

/** How a row of the kernel's table begins: addresses of this machine, with these ports. */
function ends(local: number, remote: number): RegExp {
  const port = (number: number): string => number.toString(16).toUpperCase().padStart(4, '0')
  return new RegExp(`0100007F:${port(local)} 0100007F:${port(remote)} \\w\\w (\\w+):(\\w+)`)
}

/** Bytes that were not taken by the other side's kernel, and bytes that were not read on this side. See proc(5). */
function queues(table: string, row: RegExp): [number, number] {
  const [, sending, receiving] = row.exec(table) ?? []
  return [parseInt(sending ?? '0', 16), parseInt(receiving ?? '0', 16)]
}
