// Files of the log are rotated by the real logrotate while requests are logged, and keep every line whole.
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import t from 'tap'
import type { Test } from 'tap'
import { Sink, writeTo } from '../../plugins/log/sink.ts'
import { gateway } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { eventually } from '../kit/probe.ts'
import { lacks, program, runProgram } from '../kit/programs.ts'

const shipped = readFileSync(join(import.meta.dirname, '../../config/observability/logrotate.conf'), 'utf8')
const skip = lacks('logrotate')

/** A gateway that logs to a file of its own folder, and what rotates that file. */
async function open(
  t: Test,
  conf: string
): Promise<{ running: LocalGateway; folder: string; rotate(): Promise<void> }> {
  const running = await gateway(t, { chain: [{ auth: {} }, { route: {} }, { log: { sink: './requests.log' } }] })
  const folder = dirname(running.file)
  const written = join(folder, 'logrotate.conf')
  writeFileSync(written, conf.replace('/var/log/sluice', folder), { mode: 0o644 })
  const state = join(folder, 'state')
  const rotate = async (): Promise<void> => {
    const { code, output } = await runProgram('logrotate', ['--force', '--state', state, written])
    if (code !== 0) throw new Error(`logrotate: ${output}`)
  }
  return { running, folder, rotate }
}

function filesIn(folder: string): string[] {
  return readdirSync(folder).filter((name) => name.startsWith('requests.log'))
}

/** The text of every file of the log, compressed ones included. */
function texts(folder: string): string[] {
  return filesIn(folder).map((name) => {
    const bytes = readFileSync(join(folder, name))
    return (name.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString('latin1')
  })
}

/** The request ids of all lines. A line that is cut or has something strange in it is an error. */
function idsIn(folder: string): string[] {
  return texts(folder).flatMap((text) => {
    if (text !== '' && !text.endsWith('\n')) throw new Error(`ends amid a line: ${text.slice(-80)}`)
    return text
      .split('\n')
      .slice(0, -1)
      .map((line) => (JSON.parse(line) as { request_id: string }).request_id)
  })
}

/** The bytes of the file that is written at present. */
function sizeOf({ file }: LocalGateway): number {
  return statSync(join(dirname(file), 'requests.log'), { throwIfNoEntry: false })?.size ?? 0
}

/** Sends requests until `enough`, and gives the ids of the answers. */
async function traffic(running: LocalGateway, enough: () => boolean): Promise<string[]> {
  const ids: string[] = []
  while (!enough()) {
    const replies = await Promise.all(Array.from({ length: 10 }, () => running.chat()))
    ids.push(...replies.map(({ headers }) => headers['x-request-id']!))
  }
  return ids
}

t.test('files that are moved away under load keep every line, once and whole', { skip }, async (t) => {
  const variants = { 'as shipped': shipped, create: shipped.replace('nocreate', 'create 0640') }
  for (const [name, conf] of Object.entries(variants)) {
    await t.test(name, async (t) => {
      const { running, folder, rotate } = await open(t, conf)
      let over = false
      const sent = traffic(running, () => over)
      for (let i = 0; i < 8; i++) {
        await eventually(() => sizeOf(running) > 0, 10_000)
        await rotate()
      }
      over = true
      const ids = await sent
      await eventually(() => idsIn(folder).length >= ids.length)
      t.same(idsIn(folder).toSorted(), ids.toSorted(), `${ids.length} lines`)
      t.ok(filesIn(folder).filter((name) => name.endsWith('.gz')).length >= 5, 'most are compressed')
    })
  }
})

t.test('a file that is copied and truncated is written on from its beginning', { skip }, async (t) => {
  const { running, folder, rotate } = await open(t, shipped.replace('nocreate', 'copytruncate'))
  const ids: string[] = []
  for (let i = 0; i < 4; i++) {
    let rounds = 0
    ids.push(...(await traffic(running, () => rounds++ === 2)))
    await eventually(() => idsIn(folder).length === ids.length)
    await rotate()
  }
  t.same(idsIn(folder).toSorted(), ids.toSorted())
  t.notOk(
    texts(folder).some((text) => text.includes('\0')),
    'without a hole where the old lines were'
  )
})

t.test('a copy that is made under load has no torn line in the file that goes on', { skip }, async (t) => {
  const { running, folder, rotate } = await open(t, shipped.replace('nocreate', 'copytruncate'))
  let over = false
  const sent = traffic(running, () => over)
  for (let i = 0; i < 5; i++) {
    await eventually(() => sizeOf(running) > 0, 10_000)
    await rotate()
  }
  over = true
  const last = (await sent).at(-1)!
  await eventually(() => texts(folder).some((text) => text.includes(last)))
  for (const line of readFileSync(join(folder, 'requests.log'), 'utf8').split('\n').slice(0, -1))
    t.match(JSON.parse(line), { request_id: String })
})

t.test('a line that a full disk has cut does not spoil the next', { skip: lacks('prlimit') }, async (t) => {
  const file = join(t.testdir(), 'lines.log')
  const keep = (): void => {}
  process.on('SIGXFSZ', keep)
  const limit = (soft: string): Buffer =>
    execFileSync(program('prlimit')!, ['--pid', String(process.pid), `--fsize=${soft}:unlimited`])
  t.teardown(() => {
    limit('unlimited')
    process.off('SIGXFSZ', keep)
  })
  let dropped = 0
  const sink = new Sink(writeTo(file), (lines) => (dropped += lines))
  const put = async (line: string): Promise<void> => {
    sink.line(line, 1_000_000)
    await sink.flush()
  }
  await put('{"n":1}')
  limit('12')
  await put('{"n":"is cut"}')
  limit('unlimited')
  for (const n of [3, 4]) await put(`{"n":${n}}`)
  t.same(readFileSync(file, 'utf8').split('\n'), ['{"n":1}', '{"n"', '{"n":3}', '{"n":4}', ''])
  t.equal(dropped, 1)
})
