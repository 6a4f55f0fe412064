// Compiles the JSON scanner to WebAssembly and writes it as a TypeScript module. With `--check` it only compares.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** The compiler's package. It is large, and only needed to change the scanner. */
const folder = join(import.meta.dirname, 'wasm')
const compiler = join(folder, 'node_modules/assemblyscript/bin/asc.js')
const target = join(import.meta.dirname, '../core/bodies/json/scanner-code.ts')

/**
 * The compiled module in base64; the compiler's options are in wasm/asconfig.json. Undefined when it does not compile;
 * the compiler then prints why.
 */
function compiled(): string | undefined {
  const output = mkdtempSync(join(tmpdir(), 'sluice-wasm-'))
  try {
    const file = join(output, 'scanner.wasm')
    const { status } = spawnSync(process.execPath, [compiler, '--config', 'asconfig.json', '--outFile', file], {
      cwd: folder,
      stdio: ['ignore', 2, 2]
    })
    return status === 0 ? readFileSync(file, 'base64') : undefined
  } finally {
    rmSync(output, { recursive: true, force: true })
  }
}

function moduleOf(code: string): string {
  const lines = code.match(/.{1,120}/g)!
  return [
    '// Generated from assembly/: "npm run wasm" writes it.',
    '',
    '/** The compiled scanner, in base64. */',
    'export const code =',
    lines.map((line) => `  '${line}'`).join(' +\n'),
    ''
  ].join('\n')
}

function main(check: boolean): number {
  if (!existsSync(compiler)) {
    console.error(`The compiler is not installed: run "npm run ${check ? 'check' : 'wasm'}", which installs it.`)
    return 1
  }
  const code = compiled()
  if (code === undefined) return 1
  const after = moduleOf(code)
  if (existsSync(target) && readFileSync(target, 'utf8') === after) return 0
  if (check)
    console.error(
      'core/bodies/json/scanner-code.ts is not what core/bodies/json/assembly compiles to: run "npm run wasm"'
    )
  else writeFileSync(target, after)
  return check ? 1 : 0
}

process.exitCode = main(process.argv.includes('--check'))
