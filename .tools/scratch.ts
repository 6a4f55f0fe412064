// The folder that the tests of a run write to. It is in memory where there is room: a new server of PostgreSQL takes a
// fifth of the CPU time there that it takes on a disk, and a gateway with a book a tenth less.
import {
  accessSync,
  chmodSync,
  constants,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statfsSync,
  writeFileSync
} from 'node:fs'
import { freemem } from 'node:os'
import { join } from 'node:path'

const memory = '/dev/shm'
const name = /^sluice-tests-(\d+)-/
/** Bytes that have to be free: many times what the tests that run at the same time have there. */
const room = 6 * 2 ** 30

/**
 * Makes the folder for a run, and returns the variables of the environment by which its processes find it: `TMPDIR`,
 * and `SLUICE_FIXTURES` for what tap makes for each test. Without memory for it they write where they do without a
 * runner. The folder goes when this process ends, and those of runs that were killed go now.
 */
export function makeScratch(): NodeJS.ProcessEnv {
  if (!hasRoom()) return {}
  for (const left of readdirSync(memory)) {
    const pid = Number(name.exec(left)?.[1] ?? process.pid)
    if (!lives(pid)) rmSync(join(memory, left), { recursive: true, force: true })
  }
  const made = mkdtempSync(join(memory, `sluice-tests-${process.pid}-`))
  process.on('exit', () => rmSync(made, { recursive: true, force: true, maxRetries: 10 }))
  if (!runsPrograms(made)) return {}
  // Servers run as users of their own, and reach their folders by way of this one.
  chmodSync(made, 0o755)
  const [temporary, fixtures] = ['t', 'fixtures'].map((part) => join(made, part)) as [string, string]
  mkdirSync(fixtures)
  mkdirSync(temporary)
  chmodSync(temporary, 0o1777)
  return { TMPDIR: temporary, SLUICE_FIXTURES: fixtures }
}

function hasRoom(): boolean {
  try {
    const { bavail, bsize } = statfsSync(memory)
    return Math.min(bavail * bsize, freemem()) > room
  } catch {
    return false
  }
}

/** Tests run programs that they write; some systems let none run from memory. */
function runsPrograms(folder: string): boolean {
  const program = join(folder, 'program')
  writeFileSync(program, '#!/bin/sh', { mode: 0o755 })
  try {
    accessSync(program, constants.X_OK)
    return true
  } catch {
    return false
  } finally {
    rmSync(program)
  }
}

function lives(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
}
