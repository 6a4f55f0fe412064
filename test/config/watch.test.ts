// Noticing a changed configuration file, with real files and every way in which one is replaced.
import { createHash } from 'node:crypto'
import {
  appendFileSync,
  closeSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
  writeSync
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import { watchConfig } from '../../config/files/watch.ts'
import { eventually } from '../kit/probe.ts'

const interval = 20
const hashOf = (text: string): string => createHash('sha256').update(text).digest('hex')

/** Watches a file whose content in use is `old`; `next` resolves with the hash that is reported next. */
function watch(t: Test, file: string, old = 'old'): { seen: string[]; next(): Promise<string> } {
  const seen: string[] = []
  let taken = 0
  let wake: (() => void) | undefined
  const inUse = new Map([[file, hashOf(old)]])
  const watcher = watchConfig({
    files: () => inUse,
    interval,
    onChange(files) {
      for (const path of files) inUse.set(path, hashOf(readFileSync(path, 'utf8')))
      seen.push(inUse.get(file)!)
      wake?.()
    }
  })
  t.teardown(() => watcher.close())
  // Watching keeps no process alive, so this does.
  const alive = setInterval(() => {}, 1000)
  t.teardown(() => clearInterval(alive))
  return {
    seen,
    async next() {
      while (seen.length === taken) await new Promise<void>((resolve) => (wake = resolve))
      return seen[taken++]!
    }
  }
}

t.test('a file written in place is noticed, once', async (t) => {
  const file = join(t.testdir({ 'gateway.yaml': 'old' }), 'gateway.yaml')
  const watching = watch(t, file)
  writeFileSync(file, 'new')
  t.equal(await watching.next(), hashOf('new'))
  writeFileSync(file, 'newer')
  t.equal(await watching.next(), hashOf('newer'))
  writeFileSync(file, 'old')
  t.equal(await watching.next(), hashOf('old'), 'also when it becomes what it was')
  t.equal(watching.seen.length, 3)
})

t.test('a change between loading and watching is noticed', async (t) => {
  const file = join(t.testdir({ 'gateway.yaml': 'already new' }), 'gateway.yaml')
  t.equal(await watch(t, file).next(), hashOf('already new'))
})

t.test('renames over the file are noticed, one after the other', async (t) => {
  const folder = t.testdir({ 'gateway.yaml': 'old' })
  const file = join(folder, 'gateway.yaml')
  const watching = watch(t, file)
  for (const text of ['one', 'two', 'six']) {
    writeFileSync(join(folder, 'saved'), text)
    utimesSync(join(folder, 'saved'), 1_700_000_000, 1_700_000_000)
    renameSync(join(folder, 'saved'), file)
    t.equal(await watching.next(), hashOf(text), 'whatever size and times it has')
  }
})

t.test('swapped symbolic links are noticed, as a mounted ConfigMap has them', async (t) => {
  const folder = t.testdir({})
  const publish = (version: string, text: string): void => {
    mkdirSync(join(folder, version))
    writeFileSync(join(folder, version, 'gateway.yaml'), text)
    symlinkSync(version, join(folder, '..data_tmp'))
    renameSync(join(folder, '..data_tmp'), join(folder, '..data'))
  }
  publish('..v1', 'old')
  const file = join(folder, 'gateway.yaml')
  symlinkSync('..data/gateway.yaml', file)
  const watching = watch(t, file)
  publish('..v2', 'new')
  rmSync(join(folder, '..v1'), { recursive: true })
  t.equal(await watching.next(), hashOf('new'))
  publish('..v3', 'newer')
  rmSync(join(folder, '..v2'), { recursive: true })
  t.equal(await watching.next(), hashOf('newer'))
})

t.test('a file that is being written is waited for', async (t) => {
  const file = join(t.testdir({ 'gateway.yaml': 'old' }), 'gateway.yaml')
  const watching = watch(t, file)
  const descriptor = openSync(file, 'r+')
  ftruncateSync(descriptor)
  let text = ''
  // Each piece comes sooner than two looks are apart, so no half of it ever stays the same for one interval.
  for (let piece = 0; piece < 12; piece++) {
    writeSync(descriptor, `line ${piece}\n`)
    text += `line ${piece}\n`
    await sleep(interval / 2)
  }
  closeSync(descriptor)
  t.equal(await watching.next(), hashOf(text))
  t.same(watching.seen, [hashOf(text)])
})

t.test('a file that is away for a while is waited for', async (t) => {
  const file = join(t.testdir({ 'gateway.yaml': 'old' }), 'gateway.yaml')
  const watching = watch(t, file)
  rmSync(file)
  await sleep(3 * interval)
  mkdirSync(file)
  await sleep(3 * interval)
  rmSync(file, { recursive: true })
  t.same(watching.seen, [])
  writeFileSync(file, 'back')
  t.equal(await watching.next(), hashOf('back'))
})

t.test('new times with the same content are no change, and nothing is reported after closing', async (t) => {
  const file = join(t.testdir({ 'gateway.yaml': 'old' }), 'gateway.yaml')
  const seen: string[] = []
  const inUse = new Map([[file, hashOf('old')]])
  const watcher = watchConfig({ files: () => inUse, interval, onChange: (files) => seen.push(...files) })
  for (let time = 1; time < 5; time++) {
    utimesSync(file, time, time)
    await sleep(interval)
  }
  t.same(seen, [])
  watcher.close()
  appendFileSync(file, 'er')
  await sleep(5 * interval)
  t.same(seen, [])
})

t.test('of several files those are named that have changed, once nothing changes any more', async (t) => {
  const folder = t.testdir({ 'gateway.yaml': 'old', 'cert.pem': 'old', 'key.pem': 'old' })
  const [file, cert, key, later] = ['gateway.yaml', 'cert.pem', 'key.pem', 'later.pem'].map((name) =>
    join(folder, name)
  ) as [string, string, string, string]
  const inUse = new Map([file, cert, key].map((path) => [path, hashOf('old')]))
  inUse.set(later, '')
  const seen: (readonly string[])[] = []
  const watcher = watchConfig({ files: () => inUse, interval, onChange: (files) => seen.push(files) })
  t.teardown(() => watcher.close())
  await sleep(3 * interval)
  t.same(seen, [], 'one that is not there was not there before')
  writeFileSync(cert, 'new')
  await sleep(interval / 2)
  writeFileSync(key, 'new')
  await eventually(() => seen.length > 0)
  t.same(seen, [[cert, key]], 'a certificate waits for its key')
  await sleep(5 * interval)
  t.equal(seen.length, 1, 'and is reported once, also when nobody took it over')
  writeFileSync(later, 'here')
  await eventually(() => seen.length > 1)
  t.same(seen[1], [later])
  for (const path of [cert, key]) inUse.set(path, hashOf('new'))
  inUse.set(later, hashOf('here'))
  writeFileSync(file, 'new')
  await eventually(() => seen.length > 2)
  t.same(seen[2], [file])
  inUse.set(file, hashOf('newer'))
  await eventually(() => seen.length > 3)
  t.same(seen[3], [file], 'it is not what somebody else has read meanwhile')
})
