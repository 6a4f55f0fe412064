// A large upload with its model at the end: the same bytes to every channel that is tried, and no more memory than a
// small one. Of 20 MB, or of 100 with SLUICE_LONG=1.
import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import t from 'tap'
import type { Test } from 'tap'
import { patient } from '../faults/vendor.ts'
import { spawnGateway, testKey } from '../kit/gateway.ts'

const size = process.env['SLUICE_LONG'] === '1' ? 100_000_000 : 20_000_000
const most = 32 * 1024 * 1024

t.setTimeout(600_000)

interface Heard {
  sha256: string
  bytes: number
}

/** An upstream that reads whole bodies, keeps their digests, and answers with a status. */
async function listener(t: Test, status: number): Promise<{ url: string; heard: Heard[] }> {
  const heard: Heard[] = []
  const server = createServer((incoming, answer) => {
    const digest = createHash('sha256')
    let bytes = 0
    incoming.on('data', (chunk: Buffer) => {
      digest.update(chunk)
      bytes += chunk.length
    })
    incoming.on('end', () => {
      heard.push({ sha256: digest.digest('hex'), bytes })
      answer.writeHead(status, { 'content-type': 'application/json' })
      answer.end(
        status === 200
          ? JSON.stringify({ text: 'Hello', usage: { type: 'duration', seconds: 3 } })
          : JSON.stringify({ error: { message: 'no' } })
      )
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, heard }
}

/** A form of so many bytes of sound, and then the model. */
function* form(bytes: number): Generator<Buffer> {
  yield Buffer.from(
    '--the-boundary\r\nContent-Disposition: form-data; name="file"; filename="a.mp3"\r\nContent-Type: audio/mpeg\r\n\r\n'
  )
  for (let at = 0; at < bytes; at += 65_536) {
    // No two pieces are the same, so that none can stand for another.
    const piece = Buffer.alloc(Math.min(65_536, bytes - at), at % 251)
    piece.writeUInt32BE(at, 0)
    yield piece
  }
  yield Buffer.from(
    `\r\n--the-boundary\r\nContent-Disposition: form-data; name="model"\r\n\r\ndemo\r\n--the-boundary--\r\n`
  )
}

/** Sends it; the status of the reply, and what was sent. */
async function send(url: string, bytes: number): Promise<{ status: number; sent: Heard }> {
  const digest = createHash('sha256')
  const length = [...form(bytes)].reduce((sum, piece) => sum + piece.length, 0)
  const headers = {
    authorization: `Bearer ${testKey}`,
    'content-type': 'multipart/form-data; boundary=the-boundary',
    'content-length': length
  }
  const call = request(`${url}/v1/audio/transcriptions`, { method: 'POST', headers })
  const answered = new Promise<number>((resolve, reject) => {
    call.on('error', reject)
    call.on('response', (reply) => {
      reply.resume()
      reply.on('end', () => resolve(reply.statusCode!))
    })
  })
  function* counted(): Generator<Buffer> {
    for (const piece of form(bytes)) {
      digest.update(piece)
      yield piece
    }
  }
  await pipeline(Readable.from(counted()), call)
  return { status: await answered, sent: { sha256: digest.digest('hex'), bytes: length } }
}

/** Of a process, in bytes: what it has, and the most that it had since it was asked to forget. */
function memoryOf(pid: number): { now: number; peak: number; forget(): void } {
  const kilobytes = (name: string): number =>
    Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1])
  return {
    now: kilobytes('VmRSS') * 1024,
    peak: kilobytes('VmHWM') * 1024,
    forget: () => writeFileSync(`/proc/${pid}/clear_refs`, '5')
  }
}

t.test(
  'it reaches every channel as it was sent, in little memory',
  { skip: process.platform !== 'linux' && 'memory is read from /proc' },
  async (t) => {
    const [first, second] = [await listener(t, 500), await listener(t, 200)]
    const channel = (base_url: string, priority: number): object => ({
      protocol: 'openai',
      base_url,
      private: true,
      endpoints: ['audio'],
      priority,
      models: { demo: 'demo' }
    })
    const gateway = await spawnGateway(t, {
      ...patient,
      channels: { demo: channel(first.url, 0), second: channel(second.url, 1) },
      models: { demo: { price: { second: 0.0001 } } },
      limits: { multipart_body: '200MiB' }
    })
    const pid = gateway.process.pid!
    // What every upload needs is there after some.
    for (let i = 0; i < 5; i++) t.equal((await send(gateway.url, 2_000_000)).status, 200)
    const before = memoryOf(pid)
    before.forget()
    const { status, sent } = await send(gateway.url, size)
    const { peak } = memoryOf(pid)
    t.equal(status, 200)
    t.same(first.heard.at(-1), sent)
    t.same(second.heard.at(-1), sent)
    t.ok(peak - before.now < most, `${((peak - before.now) / 1024 / 1024).toFixed(1)} MiB more for ${size / 1e6} MB`)
  }
)
