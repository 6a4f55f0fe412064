// Programs of the system that tests run beside the gateway, such as promtool.
import { spawn } from 'node:child_process'
import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'

/** Where .ci/run unpacks packages that would start a service if they were installed. */
const unpacked = join(import.meta.dirname, '..', '..', '.cache', 'debian', 'usr', 'bin')

/** The path of a program; undefined when this machine has none of that name. */
export function program(name: string): string | undefined {
  const folders = [...(process.env['PATH'] ?? '').split(delimiter), '/usr/sbin', unpacked]
  return folders.map((folder) => join(folder, name)).find(canRun)
}

function canRun(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** What `skip` of a test says when a program is missing; false when it is there. */
export function lacks(...names: string[]): string | false {
  const missing = names.filter((name) => program(name) === undefined)
  return missing.length > 0 && `this machine has no ${missing.join(' and no ')}: see .ci/run`
}

/** The exit code of a program, and all that it wrote to standard output and standard error. */
export async function runProgram(
  name: string,
  args: readonly string[],
  input = ''
): Promise<{ code: number | null; output: string }> {
  const child = spawn(program(name)!, args, { stdio: ['pipe', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (bytes: Buffer) => (output += bytes.toString()))
  // Programs that read no input may have ended already.
  child.stdin.on('error', () => {}).end(input)
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code) => resolve({ code, output }))
  })
}
