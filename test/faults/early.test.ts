// A refusal that is said before the body has come reaches the client, whichever way it sends and reads: no connection
// is reset under it.
import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { request as httpRequest } from 'node:http'
import { constants } from 'node:http2'
import { request as httpsRequest } from 'node:https'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { makeCertificate } from '../kit/certificate.ts'
import { connect } from '../kit/client.ts'
import { spawnGateway, testKey } from '../kit/gateway.ts'
import { openSession, readHttp2 } from '../kit/http2.ts'

const MiB = 1024 * 1024
const tries = process.env['SLUICE_LONG'] ? 50 : 5
/** More than what waits in the kernels on both sides. */
const body = Buffer.alloc((process.env['SLUICE_LONG'] ? 40 : 8) * MiB, 'x')
const path = '/v1/chat/completions'
/** Why a body is refused before it is read, and what is answered. */
const causes: Record<string, [status: number, path: string, headers: Record<string, string>]> = {
  'too large': [413, path, { authorization: `Bearer ${testKey}`, 'content-type': 'application/json' }],
  'a wrong key': [401, path, { authorization: 'Bearer sk-wrong', 'content-type': 'application/json' }],
  'a wrong place': [404, '/v1/nothing', { authorization: `Bearer ${testKey}`, 'content-type': 'application/json' }],
  'a wrong type': [415, path, { authorization: `Bearer ${testKey}`, 'content-type': 'text/plain' }]
}

/** Sends the body and gives the status of the answer, or why there is none. */
type Way = (url: string, path: string, headers: Record<string, string>) => Promise<number | string>

const reason = (error: unknown): string =>
  String((error as { cause?: { code?: string } }).cause?.code ?? (error as { code?: string }).code ?? error)

const fetched =
  (stream: boolean): Way =>
  async (url, path, headers) => {
    try {
      const pieces = new ReadableStream({
        start(controller) {
          for (let at = 0; at < body.length; at += 64 * 1024) controller.enqueue(body.subarray(at, at + 64 * 1024))
          controller.close()
        }
      })
      const init = {
        method: 'POST',
        headers,
        body: stream ? pieces : body,
        ...(stream && { duplex: 'half' })
      } as RequestInit
      const reply = await fetch(url + path, init)
      const { error } = (await reply.json()) as { error: { code: string } }
      return error.code === '' ? 'no code' : reply.status
    } catch (error) {
      return reason(error)
    }
  }

const requested =
  (ca?: string): Way =>
  (url, path, headers) =>
    new Promise((resolve) => {
      const request =
        ca === undefined
          ? httpRequest(url + path, { method: 'POST', headers })
          : httpsRequest(url + path, { method: 'POST', headers, ca })
      request.on('response', (reply) =>
        reply
          .resume()
          .on('end', () => resolve(reply.statusCode!))
          .on('error', (error) => resolve(reason(error)))
      )
      request.on('error', (error) => resolve(reason(error)))
      request.end(body)
    })

t.test('clients that send and read at the same time', async (t) => {
  const { url } = await spawnGateway(t, { limits: { json_body: '1MiB' } })
  for (const [way, ask] of Object.entries({
    fetch: fetched(false),
    'fetch in chunks': fetched(true),
    'node:http': requested()
  })) {
    for (const [cause, [status, path, headers]] of Object.entries(causes)) {
      const seen = await Promise.all(
        Array.from({ length: tries }, async (_, at) => {
          await sleep(at * 5)
          return ask(url, path, headers)
        })
      )
      t.strictSame(
        seen,
        seen.map(() => status),
        `${way}: ${cause}`
      )
    }
  }
})

t.test('clients that read when they have sent all of it', async (t) => {
  const { url } = await spawnGateway(t, { limits: { json_body: '1MiB' } })
  for (const [cause, [status, path, headers]] of Object.entries(causes)) {
    const lines = Object.entries(headers)
      .map(([name, value]) => `${name}: ${value}\r\n`)
      .join('')
    const client = await connect(t, url)
    client.stopReading()
    const sent = new Promise((resolve) => client.socket.once('drain', resolve))
    client.write(`POST ${path} HTTP/1.1\r\nhost: x\r\n${lines}content-length: ${body.length}\r\n\r\n`).write(body)
    await Promise.race([sent, client.closed])
    t.equal((await client.resume().reply()).status, status, cause)
  }
})

t.test('clients over TLS and HTTP/2', async (t) => {
  const certificate = makeCertificate(t)
  const { url } = await spawnGateway(t, {
    limits: { json_body: '1MiB' },
    listen: { tls: { cert: certificate.cert, key: certificate.key } }
  })
  const [status, path, headers] = causes['too large']!
  const seen = await Promise.all(Array.from({ length: tries }, () => requested(certificate.ca)(url, path, headers)))
  t.strictSame(
    seen,
    seen.map(() => status),
    'TLS'
  )
  const clear = await spawnGateway(t, { limits: { json_body: '1MiB' } })
  for (let n = 0; n < tries; n++) {
    // Node's client takes no head as long as more than this waits to be sent.
    const stream = openSession(t, clear.url, { maxSessionMemory: 200 }).request({
      ':path': path,
      ':method': 'POST',
      ...headers
    })
    stream.on('error', () => {})
    stream.end(body)
    const reply = await readHttp2(stream)
    t.strictSame([reply.headers[':status'], stream.rstCode], [status, constants.NGHTTP2_NO_ERROR], 'HTTP/2')
  }
})

t.test('curl', async (t) => {
  const { url } = await spawnGateway(t, { limits: { json_body: '1MiB' } })
  const file = join(t.testdirName, 'body')
  writeFileSync(file, body)
  const run = (...more: string[]): Promise<string> =>
    new Promise((resolve) => {
      const headers = ['-H', `authorization: Bearer ${testKey}`, '-H', 'content-type: application/json']
      execFile(
        'curl',
        [
          '-s',
          '-o',
          '/dev/null',
          '-w',
          '%{http_code} %{errormsg}',
          '--data-binary',
          `@${file}`,
          ...headers,
          ...more,
          url + path
        ],
        (_error, output) => resolve(output.trim())
      )
    })
  const version = await new Promise<string>((resolve) =>
    execFile('curl', ['--version'], (_error, output) => resolve(output))
  )
  if (version === '') return t.comment('there is no curl here')
  const ways = [
    ['-H', 'expect:'],
    ['-H', 'expect:', '-H', 'transfer-encoding: chunked'],
    [],
    ...(version.includes('HTTP2') ? [['--http2-prior-knowledge']] : [])
  ]
  for (const way of ways) for (let n = 0; n < 3; n++) t.match(await run(...way), /^413/, way.join(' '))
})
