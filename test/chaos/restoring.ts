// A restore whose process ends at one of its steps: `node test/chaos/restoring.ts <store> <backup> <step> <seed>`. It
// is killed in place of that call of the file system, counted from 1. With a seed the power goes too: names that no
// sync of their folder has made lasting are, by chance, as they were before. It prints the number of steps when it gets
// to the end.
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { dirname } from 'node:path'
import { chance as chanceOf } from '../kit/chance.ts'

const [store = '', backup = '', at = '0', seed = ''] = process.argv.slice(2)
const chance = seed === '' ? undefined : chanceOf(Number(seed))
const real = { ...fs }

/** What takes a change of names back, newest last, and the folders of which any sync makes it last. */
const loose: { folders: string[]; undo: () => void }[] = []
const opened = new Map<number, string>()
let steps = 0

function step(): void {
  if (++steps !== Number(at)) return
  for (const { undo } of loose.toReversed()) if (chance && chance.below(2) === 0) undo()
  process.kill(process.pid, 'SIGKILL')
}

Object.assign(fs, {
  renameSync(from: string, to: string): void {
    step()
    real.renameSync(from, to)
    loose.push({ folders: [dirname(to)], undo: () => real.renameSync(to, from) })
  },
  mkdirSync(path: string, options: fs.MakeDirectoryOptions): void {
    step()
    real.mkdirSync(path, options)
  },
  rmSync(path: string, options?: fs.RmOptions): void {
    const there = real.statSync(path, { throwIfNoEntry: false })
    if (!there) return
    step()
    const before = there.isFile() && there.size < 65_536 ? real.readFileSync(path) : undefined
    real.rmSync(path, options)
    if (before && path.endsWith('.restore'))
      loose.push({ folders: [dirname(path)], undo: () => real.writeFileSync(path, before) })
  },
  openSync(path: string, flags: string, mode?: number): number {
    if (flags !== 'r') step()
    const fd = real.openSync(path, flags, mode)
    opened.set(fd, path)
    return fd
  },
  writeSync(fd: number, ...rest: [Buffer, number, number, number]): number {
    step()
    return real.writeSync(fd, ...rest)
  },
  fsyncSync(fd: number): void {
    step()
    real.fsyncSync(fd)
    const path = opened.get(fd)!
    for (const one of loose.filter(({ folders }) => folders.includes(path))) loose.splice(loose.indexOf(one), 1)
  }
})
syncBuiltinESMExports()

const { restore } = await import('../../core/store/embedded/care/restore.ts')
const { aside } = await restore(store, backup)
process.stdout.write(JSON.stringify({ steps, aside }))
