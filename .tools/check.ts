// Checks everything that is no test, all at once: types, lint with its boundaries, generated documentation, vendor names.
import { spawn } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const root = join(import.meta.dirname, '..')

/** What one check found; no output when all is well. */
interface Finding {
  ok: boolean
  output: string
}

const checks: Readonly<Record<string, () => Finding | Promise<Finding>>> = {
  types: () => run('node_modules/typescript/bin/tsc', '--noEmit'),
  lint: () => run('node_modules/oxlint/bin/oxlint', '--type-aware', '--deny-warnings'),
  docs: () => run('config/docs.ts', '--check'),
  vendors: findVendors
}

/** Runs a script with this Node. */
function run(script: string, ...args: string[]): Promise<Finding> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [join(root, script), ...args], { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] })
    let output = ''
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text: string) => (output += text))
    child.on('close', (code) => resolve({ ok: code === 0, output }))
  })
}

/**
 * Vendors are data: they stand in YAML and documentation, and those who own a protocol in core/protocols and as the
 * protocol's name. A comment may cite whom it likes.
 */
function findVendors(): Finding {
  const vendors = /\b(azure|bedrock|vertex|openrouter|groq|mistral|deepseek|together_?ai|fireworks|perplexity|cohere|ollama|vllm|moonshot|qwen|zhipu|xai)\b/i
  const found = globSync('{core,plugins,config}/**/*.ts', { cwd: root }).filter((file) => !file.startsWith('core/protocols/')).flatMap((file) => (
    readFileSync(join(root, file), 'utf8').split('\n').flatMap((line, index) => {
      const name = vendors.exec(line.replace(/(^|\s)(\/\/|\/?\*).*/, ''))?.[0]
      return name === undefined ? [] : [`${file}:${index + 1} names ${name}: what is special about a vendor belongs into core/protocols or YAML`]
    })
  ))
  return { ok: found.length === 0, output: found.join('\n') }
}

const startedAt = performance.now()
const results = await Promise.all(Object.entries(checks).map(async ([name, check]) => {
  const { ok, output } = await check()
  console.log(ok ? `✓ ${name}` : `✗ ${name}\n${output.trimEnd()}`)
  return ok
}))
const failed = results.filter((ok) => !ok).length
console.log(`${results.length - failed} of ${results.length} checks passed in ${((performance.now() - startedAt) / 1000).toFixed(1)} s`)
process.exitCode = failed === 0 ? 0 : 1
