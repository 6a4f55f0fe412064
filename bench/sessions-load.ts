// The clients of realtime sessions, in their own process: send frames at a pace, count the frames that come, and hold
// sessions open.
import { setTimeout as delay } from 'node:timers/promises'
import { WebSocket } from 'ws'
import { serve } from './child.ts'
import { appendFrame, deltaFrame, key, realtimePath } from './payload.ts'
import { cpuBetween, cpuOf } from './proc.ts'
import type { Cpu } from './proc.ts'

/**
 * A task: open this many sessions, and during the window let each send a frame every `gap` milliseconds. With 0
 * seconds, sessions are only opened.
 */
export interface SessionJob {
  port: number
  pid: number
  sessions: number
  gap: number
  warm: number
  seconds: number
}

/** The result of the window. `frames`: those that clients sent or received. */
export interface SessionsSeen {
  cpu: Cpu
  seconds: number
  frames: number
  failed: number
  reason: string
}

const open = new Set<WebSocket>()
let frames = 0
let failed = 0
let reason = ''

function fail(why: string): void {
  failed++
  reason ||= why
}

function dial(port: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const socket = new WebSocket(`ws://127.0.0.1:${port}${realtimePath}`, {
    headers: { authorization: `Bearer ${key}` },
    perMessageDeflate: false
  })
  socket.on('open', () => {
    open.add(socket)
    resolve()
  })
  socket.on('message', (data) => {
    if ((data as Buffer).length !== deltaFrame.length) fail('a frame is not what was sent')
    frames++
  })
  socket.on('error', (error) => {
    fail(error.message)
    resolve()
  })
  socket.on('close', () => {
    if (open.delete(socket)) fail('a session was closed')
  })
  return promise
}

async function fill(port: number, sessions: number): Promise<void> {
  while (open.size < sessions) {
    const before = open.size
    await Promise.all(Array.from({ length: Math.min(32, sessions - open.size) }, () => dial(port)))
    if (open.size === before) return
  }
}

function send(gap: number): () => void {
  const all = [...open]
  let [turned, due, next] = [performance.now(), 0, 0]
  const timer = setInterval(() => {
    const now = performance.now()
    due += (all.length * (now - turned)) / gap
    turned = now
    for (; due >= 1; due--, frames++) all[next++ % all.length]!.send(appendFrame, { binary: false })
  }, 1)
  return () => clearInterval(timer)
}

async function run({ port, pid, sessions, gap, warm, seconds }: SessionJob): Promise<SessionsSeen> {
  failed = 0
  reason = ''
  if (sessions === 0) {
    for (const socket of open) socket.terminate()
    open.clear()
  } else await fill(port, sessions)
  const stop = gap > 0 ? send(gap) : () => {}
  await delay(warm * 1000)
  const [cpu, started, before] = [cpuOf(pid), performance.now(), frames]
  await delay(seconds * 1000)
  const seen = {
    cpu: cpuBetween(cpu, cpuOf(pid)),
    seconds: (performance.now() - started) / 1000,
    frames: frames - before
  }
  stop()
  return { ...seen, failed, reason }
}

serve<SessionJob>({}, run)
