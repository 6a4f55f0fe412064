// Bounds the connections of the admin listener, and keeps it reachable when idle clients take all of them.
import type { Server } from 'node:http'
import type { Socket } from 'node:net'

/**
 * Closes one connection for each that comes beyond `most`: the one that has been idle longest, or when all wait for an
 * answer, the one that has waited longest. So a health check always gets through.
 */
export function boundConnections(server: Server, most: number): void {
  /** How many requests each connection is answering. The connection that began or ended one last is at the end. */
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
  server.prependListener('upgrade', ({ socket }) => heard(socket, 1))
  server.prependListener('request', ({ socket }, response) => {
    heard(socket, 1)
    response.once('close', () => heard(socket, -1))
  })
}
