// The disk that other tests rely on: what it fails, what it keeps over a loss of power, and that it kills where it is
// told.
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { Disk, noDisk } from './disk.ts'

/** Runs steps on a file in a process that has the disk under it; what each came to. */
function run(disk: Disk, file: string, steps: string): { log: string; signal: NodeJS.Signals | null } {
  const program = `
    const fs = require('node:fs')
    const log = (work) => { try { work(); console.log('done') } catch (error) { console.log(error.code) } }
    const page = (at, text) => log(() => fs.writeSync(fd, text.repeat(4096), at * 4096))
    const sync = () => log(() => fs.fsyncSync(fd))
    let fd = fs.openSync(${JSON.stringify(file)}, 'a+')
    fs.closeSync(fd)
    fd = fs.openSync(${JSON.stringify(file)}, 'r+')
    ${steps}`
  const { stdout, signal } = spawnSync(process.execPath, ['-e', program], {
    env: { ...process.env, ...disk.env },
    encoding: 'utf8'
  })
  return { log: stdout.trim().split('\n').join(' '), signal }
}

t.test('a sync that failed is believed by the next one, and power takes what it was for', { skip: noDisk }, (t) => {
  const home = t.testdir()
  let lost = 0
  for (let seed = 1; seed <= 4; seed++) {
    const file = join(home, `store-${seed}`)
    const disk = Disk.make(t, file, seed)
    disk.set({ syncs: 'EIO', times: 1 })
    t.equal(
      run(disk, file, "page(0, 'a'); page(1, 'b'); sync(); sync(); page(2, 'c'); sync(); page(3, 'd')").log,
      'done done EIO done done done done'
    )
    t.equal(readFileSync(file, 'latin1').length, 4 * 4096, 'as long as there is power all is there')
    disk.losePower()
    const kept = readFileSync(file, 'latin1')
    t.equal(kept[2 * 4096], 'c', 'what was synced is kept')
    for (const [page, text] of [
      [0, 'a'],
      [1, 'b'],
      [3, 'd']
    ] as const) {
      const is = kept[page * 4096]
      if (is === text) continue
      t.ok(is === '\0' || is === undefined, 'a page is there or not')
      lost++
    }
  }
  t.ok(lost > 0 && lost < 12, `${lost} of 12 pages lost`)
  t.end()
})

t.test('a file that is opened for durable writes needs no sync, and loses what was refused', { skip: noDisk }, (t) => {
  const file = join(t.testdir(), 'store')
  const disk = Disk.make(t, file)
  const durable = `fs.closeSync(fd); fd = fs.openSync(${JSON.stringify(file)}, fs.constants.O_RDWR | fs.constants.O_DSYNC);`
  t.equal(run(disk, file, `${durable} page(0, 'a')`).log, 'done')
  disk.set({ syncs: 'EIO', times: 1 })
  t.equal(
    run(disk, file, `${durable} log(() => fs.writeSync(fd, 'b'.repeat(16 * 4096), 4096)); page(17, 'c')`).log,
    'EIO done'
  )
  disk.losePower()
  const kept = readFileSync(file, 'latin1')
  t.same([kept[0], kept[17 * 4096]], ['a', 'c'])
  const pages = Array.from({ length: 16 }, (_, page) => kept[(1 + page) * 4096])
  t.same([...new Set(pages)].sort(), ['\0', 'b'], 'some pages of what was refused are there')
  t.end()
})

t.test('it fails what it is told to, and is killed where it is told', { skip: noDisk }, (t) => {
  const file = join(t.testdir(), 'store')
  const disk = Disk.make(t, file)
  disk.set({ writes: 'ENOSPC' })
  t.equal(
    run(
      disk,
      file,
      "page(0, 'a'); sync(); log(() => fs.ftruncateSync(fd, 0)); log(() => fs.writevSync(fd, [Buffer.from('x')], 0))"
    ).log,
    'ENOSPC done ENOSPC ENOSPC'
  )
  t.same(disk.calls, { writes: 3, syncs: 1, failed: 3 })
  disk.set({ killAt: 3 })
  t.same(run(disk, file, "page(0, 'a'); sync(); page(1, 'b'); sync()"), { log: 'done done', signal: 'SIGKILL' })
  disk.set()
  t.equal(run(disk, file, "page(1, 'c'); log(() => fs.writeSync(1, ''))").log, 'done done')
  t.end()
})
