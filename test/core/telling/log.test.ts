// The operational log: the lines' format, what never gets into them, and streams that take nothing.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough, Writable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { stripVTControlCharacters } from 'node:util'
import t from 'tap'
import { LineWriter } from '../../../core/telling/line-writer.ts'
import { createLogger } from '../../../core/telling/log.ts'
import type { LogOptions, Logger } from '../../../core/telling/log.ts'

function recorded(options: LogOptions = {}): { log: Logger; lines: string[]; json: () => Record<string, unknown>[] } {
  const lines: string[] = []
  const log = createLogger({ ...options, write: (line) => lines.push(line) })
  return { log, lines, json: () => lines.map((line) => JSON.parse(line) as Record<string, unknown>) }
}

t.test('a line is one JSON object with time, level and msg first, then the fields', async (t) => {
  const { log, lines, json } = recorded()
  log.child({ plugin: 'route' }).child({ exchange: 'x1' }).warn('a channel is left out', { channel: 'demo', ms: 5000 })
  t.equal(lines.length, 1)
  t.match(
    lines[0],
    /^\{"time":"\d{4}-\d\d-\d\dT[\d:.]+Z","level":"warn","msg":"a channel is left out","plugin":"route","exchange":"x1","channel":"demo","ms":5000\}\n$/
  )
  log.info('two\nlines', { text: 'a\nb' })
  t.equal(lines[1]!.indexOf('\n'), lines[1]!.length - 1, 'what has line breaks stays one line')
  log.error('fields', { level: 'fatal', msg: 'other', time: 0 })
  t.match(json()[2], { level: 'error', msg: 'fields', time: /^2/ }, 'fields do not pass for the line itself')
})

t.test('lines below the level are left out', async (t) => {
  const { log, json } = recorded({ level: 'warn' })
  for (const level of ['debug', 'info', 'warn', 'error'] as const) log[level](level)
  log.child({ a: 1 }).debug('child')
  t.same(
    json().map(({ msg }) => msg),
    ['warn', 'error']
  )
})

t.test('secrets do not get into a line, wherever they stand', async (t) => {
  const { log, lines, json } = recorded()
  const secret = 'sk-live-0123456789abcdef'
  log.error(`Incorrect API key provided: ${secret}.`, {
    authorization: `Bearer ${secret}`,
    headers: { 'x-api-key': 'anything', cookie: 'session=1', accept: '*/*' },
    nested: [{ credential: 'hunter2', token: 'abc', password: 'p', apiKey: 'k' }],
    error: new Error(`upstream said: bearer eyJhbGciOi.payload.signature refused ${secret}`)
  })
  const [line] = lines
  for (const leak of [secret, '0123456789abcdef', 'anything', 'session=1', 'hunter2', '"abc"', 'eyJhbGciOi'])
    t.notOk(line!.includes(leak), leak)
  t.match(json()[0], { msg: 'Incorrect API key provided: sk-[redacted]', headers: { accept: '*/*' } })
})

t.test('any value can be a field', async (t) => {
  const { log, json } = recorded()
  const circular: Record<string, unknown> = {}
  circular['self'] = circular
  log.info('values', {
    nano: 12n,
    nothing: undefined,
    no: null,
    error: new TypeError('bad'),
    long: 'x'.repeat(100_000)
  })
  log.info('circular', { circular })
  const [values] = json()
  t.match(values, { nano: '12', no: null, error: /^TypeError: bad\n +at / })
  t.ok(String(values!['long']).length < 9000, 'no value fills a disk')
  t.equal(json().length, 2)
})

t.test('for people the phrase comes first', async (t) => {
  const { log, lines } = recorded({ pretty: true })
  log.info('the configuration was reloaded', { reason: 'SIGHUP', ms: 3, token: 'abc' })
  t.match(
    stripVTControlCharacters(lines[0]!),
    /^\d\d:\d\d:\d\d\.\d{3} info {2}the configuration was reloaded reason=SIGHUP ms=3 token=\[redacted\]\n$/
  )
})

t.test('lines of one turn leave in one write, and none is larger than it needs to be', async (t) => {
  const writes: string[] = []
  const stream = standard(
    new Writable({
      write(chunk, _encoding, done) {
        writes.push(String(chunk))
        done()
      }
    })
  )
  const writer = new LineWriter(stream, () => t.fail('nothing is lost'))
  writer.write('a\n')
  writer.write('b\n')
  t.same(writes, [], 'the caller does not wait for the stream')
  await writer.flush()
  t.same(writes, ['a\nb\n'])
  for (let i = 0; i < 3000; i++) writer.write(`${'x'.repeat(99)}\n`)
  await writer.flush()
  t.equal(writes.slice(1).join('').length, 300_000)
  t.ok(
    writes.every((write) => write.length <= 64 * 1024 + 100),
    'at most 64 KiB at a time'
  )
  await writer.flush()
})

t.test('a stuck stream costs lines and no memory, and the loss is told when it moves again', async (t) => {
  const stuck = standard(new PassThrough({ highWaterMark: 1 }))
  let told = 0
  const writer: LineWriter = new LineWriter(stuck, (lines) => {
    told += lines
    writer.write(`lost ${lines}\n`)
  })
  const line = `${'x'.repeat(1023)}\n`
  for (let i = 0; i < 5000; i++) writer.write(line)
  t.equal(told, 0, 'not while there is no room')
  const reading = text(stuck)
  await writer.flush()
  stuck.end()
  const lines = (await reading).trimEnd().split('\n')
  t.equal(told, 5000 - 1024, 'one MiB waits')
  t.equal(lines.length, 1024 + 1)
  t.equal(lines.at(-1), `lost ${told}`)
})

t.test('what was logged just before a crash is written', async (t) => {
  const program = join(t.testdir(), 'crash.mjs')
  writeFileSync(
    program,
    `
    import { createLogger } from ${JSON.stringify(new URL('../../../core/telling/log.ts', import.meta.url).href)}
    createLogger().error('the last words')
    throw new Error('crash')`
  )
  const child = spawn(process.execPath, [program], { stdio: ['ignore', 'ignore', 'pipe'] })
  const [output, [code]] = await Promise.all([text(child.stderr), once(child, 'exit')])
  t.match(output, /"msg":"the last words"/)
  t.equal(code, 1)
})

t.test('a reader that has gone does not end the program', async (t) => {
  const program = join(t.testdir(), 'epipe.mjs')
  writeFileSync(
    program,
    `
    import { createLogger } from ${JSON.stringify(new URL('../../../core/telling/log.ts', import.meta.url).href)}
    const log = createLogger()
    process.stdin.once('data', async () => {
      for (let turn = 0; turn < 5; turn++) {
        log.info('nobody reads this')
        await log.flush()
      }
      process.exitCode = 7
      process.stdin.destroy()
    })
    process.stdout.write('up')`
  )
  const child = spawn(process.execPath, [program], { stdio: 'pipe' })
  await once(child.stdout, 'data')
  child.stderr.destroy()
  child.stdin.write('go')
  t.same(await once(child, 'exit'), [7, null])
})

/** A stream in the place of a standard one. */
function standard<S extends Writable>(stream: S): S & NodeJS.WriteStream & { fd: number } {
  return Object.assign(stream, { fd: -1 }) as unknown as S & NodeJS.WriteStream & { fd: number }
}
