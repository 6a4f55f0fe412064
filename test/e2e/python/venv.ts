// The Python that the vendors' libraries run on: a virtual environment in .cache/, made on first use and whenever the
// requirements change.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

const folder = join(import.meta.dirname, '../../../.cache/python')
const lock = `${folder}.lock`
const requirements = join(import.meta.dirname, 'requirements.txt')

/** What makes Python keep what it compiles beside the libraries, as several scripts load the same. */
export const keeping: NodeJS.ProcessEnv = {
  PYTHONDONTWRITEBYTECODE: '',
  PYTHONPYCACHEPREFIX: join(folder, 'compiled')
}

/**
 * The interpreter, with everything in requirements.txt. Undefined when the machine has no python3 that can make one.
 * @throws Error when it cannot be made or filled
 */
export function python(): string | undefined {
  if (!succeeds('python3', '-c', 'import venv, ensurepip')) return undefined
  mkdirSync(dirname(folder), { recursive: true })
  takeLock()
  try {
    return made()
  } finally {
    rmSync(lock, { force: true })
  }
}

/** Test files run side by side, and several of them need the environment: one makes it, and the others wait. */
function takeLock(): void {
  for (;;) {
    try {
      return writeFileSync(lock, String(process.pid), { flag: 'wx' })
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
    if (isHeld()) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100)
    else rmSync(lock, { force: true })
  }
}

/** Whether the process that took the lock is still there; one that was killed has left it behind. */
function isHeld(): boolean {
  try {
    const holder = Number(readFileSync(lock, 'utf8'))
    return holder === 0 || process.kill(holder, 0)
  } catch {
    return false
  }
}

/** @throws Error when it cannot be made or filled */
function made(): string {
  const interpreter = join(folder, 'bin/python')
  const stamp = join(folder, 'requirements.txt')
  const wanted = readFileSync(requirements, 'utf8')
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted && succeeds(interpreter, '--version'))
    return interpreter
  rmSync(folder, { recursive: true, force: true })
  run('python3', '-m', 'venv', '--without-pip', folder)
  // A pip that the machine has need not be unpacked once more, which takes half as long as all of the libraries.
  let pip: [string, ...string[]] = ['python3', '-m', 'pip', '--python', interpreter]
  if (!succeeds(...pip, '--version')) {
    run(interpreter, '-m', 'ensurepip')
    pip = [interpreter, '-m', 'pip']
  }
  run(
    ...pip,
    'install',
    '--quiet',
    '--no-deps',
    '--no-compile',
    '--disable-pip-version-check',
    '--requirement',
    requirements
  )
  writeFileSync(stamp, wanted)
  return interpreter
}

function succeeds(command: string, ...parameters: string[]): boolean {
  return spawnSync(command, parameters, { stdio: 'ignore' }).status === 0
}

function run(command: string, ...parameters: string[]): void {
  const { status, stderr } = spawnSync(command, parameters, { encoding: 'utf8', stdio: ['ignore', 'ignore', 'pipe'] })
  if (status !== 0) throw new Error(`${command} ${parameters.join(' ')} failed: ${stderr}`)
}
