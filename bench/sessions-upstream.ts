// The upstream of realtime sessions, in its own process: accepts every session, and sends frames to each at a pace.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { WebSocketServer } from 'ws'
import { serve } from './child.ts'
import { deltaFrame } from './payload.ts'

/** Milliseconds between two frames of a session; 0 to send none. */
export interface Pace {
  gap: number
}

const server = createServer()
const sessions = new WebSocketServer({ server, perMessageDeflate: false, clientTracking: true })
sessions.on('connection', (socket) => void socket.on('error', () => socket.terminate()))

let timer: NodeJS.Timeout | undefined
let turned = 0
let due = 0

/** Sends the frames that are due. A late timer catches up, so that the rate holds. */
function turn(gap: number): void {
  const now = performance.now()
  const all = [...sessions.clients]
  due += (all.length * (now - turned)) / gap
  turned = now
  for (; due >= 1; due--) {
    const socket = all[next++ % all.length]!
    socket.send(deltaFrame, { binary: false })
  }
}
let next = 0

server.listen({ host: '127.0.0.1', port: 0, backlog: 4096 }, () => {
  serve<Pace>({ port: (server.address() as AddressInfo).port }, ({ gap }) => {
    clearInterval(timer)
    turned = performance.now()
    due = 0
    if (gap > 0) timer = setInterval(() => turn(gap), 1)
    return {}
  })
})
