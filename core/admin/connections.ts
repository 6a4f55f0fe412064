// The connections of the admin listener: bounded, and whoever says nothing keeps nobody out.
import type { Server } from 'node:http'
import type { Socket } from 'node:net'

/**
 * Closes a connection for each that comes beyond `most`: the one that has been idle for longest, and when all of them
 * wait for an answer the one that does so for longest. So whoever asks for health is always heard.
 */
export function boundConnections(server: Server, most: number): void {
  /** How many requests are being answered, by connection; those that were heard last are last. */
  const open = new Map<Socket, number>()
  const heard = (socket: Socket, change: number): void => {
    const answering = open.get(socket)
    if (answering === undefined) return
    open.delete(socket)
    open.set(socket, answering + change)
  }
  server.on('connection', (socket: Socket) => {
    if (open.size >= most) {
      const idle = [...open].find(([, answering]) => answering === 0)?.[0]
      const [first] = open.keys()
      const goes = idle ?? first!
      open.delete(goes)
      goes.destroy()
    }
    open.set(socket, 0)
    socket.once('close', () => open.delete(socket))
  })
  server.prependListener('request', ({ socket }, response) => {
    heard(socket, 1)
    response.once('close', () => heard(socket, -1))
  })
}
