// Runs all checks that are not tests at the same time: types, format, lint with its boundaries, floors, circular
// imports, links and lengths of READMEs, generated documentation and code, vendor names, money, and functions that V8
// makes in the old space.
import { spawn } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { circles, misplacedImports } from './floors.ts'
import { lostPatterns } from './mutant-areas.ts'
import { brokenReferences } from './references.ts'

const root = join(import.meta.dirname, '..')

/** The result of one check. `output` is empty when all is well. */
interface Finding {
  ok: boolean
  output: string
}

const checks: Readonly<Record<string, () => Finding | Promise<Finding>>> = {
  types: () => run('node_modules/typescript/bin/tsc', '--noEmit'),
  'types of the console': () => run('node_modules/typescript/bin/tsc', '-p', 'core/admin/console/app'),
  format: findUnformatted,
  lint: () => run('node_modules/oxlint/bin/oxlint', '--type-aware', '--deny-warnings'),
  docs: () => run('config/reference/docs.ts', '--check'),
  wasm: () => run('.tools/wasm.ts', '--check'),
  floors: findMisplaced,
  circles: findCircles,
  references: findBrokenReferences,
  vendors: findVendors,
  markup: findLooseMarkup,
  money: findFloatingMoney,
  functions: findKeptFunctions
}

/** Runs a script with this Node. */
function run(script: string, ...args: string[]): Promise<Finding> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [join(root, script), ...args], {
      cwd: root,
      stdio: ['ignore', 'pipe', 'pipe']
    })
    let output = ''
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (text: string) => (output += text))
    child.on('close', (code) => resolve({ ok: code === 0, output }))
  })
}

/** Finds files that the formatter would change, and comments wider than 120 characters, which it leaves alone. */
async function findUnformatted(): Promise<Finding> {
  const { ok, output } = await run('node_modules/oxfmt/bin/oxfmt', '--list-different', '.')
  const unformatted = output.split('\n').filter((name) => name !== '')
  const found = [...unformatted.map((name) => `${name} is not formatted: npm run format`), ...findWideComments()]
  return { ok: ok && found.length === 0, output: found.join('\n') }
}

function findWideComments(): string[] {
  const files = globSync(['{core,plugins,config,bench,test}/**/*.ts', '.tools/*.ts'], {
    cwd: root,
    exclude: ['**/node_modules/**', 'test/packages/**', 'test/golden/**']
  })
  return files.flatMap((file) =>
    readFileSync(join(root, file), 'utf8')
      .split('\n')
      .flatMap((line, index) =>
        line.length > 120 && /^\s*(?:\/\/|\/?\*)/.test(line)
          ? [`${file}:${index + 1} has a comment of ${line.length} characters: 120 at most`]
          : []
      )
  )
}

/** Finds imports that go up, or to another room on the same floor, against the picture in core/README.md. */
function findMisplaced(): Finding {
  const found = misplacedImports(root)
  return { ok: found.length === 0, output: found.join('\n') }
}

/** Finds files that import each other in a circle, including imports of types. None of them could be read alone. */
function findCircles(): Finding {
  const found = circles(root)
  return { ok: found.length === 0, output: found.join('\n') }
}

/** Finds links and paths in READMEs that lead nowhere, READMEs that are too long, and areas of faults without files. */
function findBrokenReferences(): Finding {
  const found = [...brokenReferences(root), ...lostPatterns(root)]
  return { ok: found.length === 0, output: found.join('\n') }
}

/**
 * Finds names of vendors in code. Vendors belong in YAML and documentation; only the owners of a protocol are named, in
 * core/protocols and in the simulator, whoever hands out credentials, and clients in what users copy. Comments may cite
 * any vendor.
 */
function findVendors(): Finding {
  const vendors =
    /\b(azure|vertex|openrouter|groq|mistral|deepseek|together_?ai|fireworks|perplexity|cohere|ollama|vllm|moonshot|qwen|zhipu|xai)\b/i
  return findInCode(
    vendors,
    (name) => `names ${name}: what is special about a vendor belongs into core/protocols or YAML`,
    'core/protocols/',
    'core/simulator/rerank/',
    'core/credentials/',
    'config/channels/credentials.ts',
    'core/admin/console/app/pages/keys/snippets.ts'
  )
}

/**
 * Finds what lets text of others become markup in the console, and components in templates, whose properties nothing
 * would check.
 */
function findLooseMarkup(): Finding {
  return findInCode(
    /dangerouslySetInnerHTML|<\$\{|\.(?:innerHTML|outerHTML|insertAdjacentHTML)\b/,
    (found) => `has ${found}: make elements of html, and components of h(Component, {…})`,
    'core/simulator/'
  )
}

/**
 * Finds money that is a number. Money is a bigint of nano-dollars (core/money/money.ts), and the types keep a bigint
 * apart from numbers. This check ensures that nothing named like money is declared as a number, converted to one, or
 * parsed through one. Only the metrics may do so, because Prometheus has nothing but floats.
 */
function findFloatingMoney(): Finding {
  const money =
    '(?:amount|cost|charged?|posted|pending|reserved|held|spent|owed|credit|balance|price|rate|budget|overspend|nano|usd)(?:Nano|Usd|PerMillion)?'
  const floating = new RegExp(`\\b${money}\\??: number\\b|\\bNumber\\([\\w.!?]*\\b${money}\\)|\\bparseFloat\\(`)
  return findInCode(
    floating,
    (text) => `has ${text}: money is a bigint of nano-dollars, which core/money/money.ts reads and writes`,
    'plugins/log/metrics.ts'
  )
}

/**
 * Finds functions that are written where they are assigned to a property. V8 takes them for part of the program and
 * makes them in the old space, where they keep all that they refer to until the next full collection: the exchange. A
 * function that is a constant first is made like any other object. What is excepted runs at the start only.
 */
function findKeptFunctions(): Finding {
  return findInCode(
    /\.#?\w+ (?:\?\?)?= (?:async )?(?:function\b|(?:\((?:[^()]|\([^()]*\))*\)(?:: [^=]+)?|\w+) =>)/,
    () => 'assigns a function to a property: make it a constant first, or it outlives its exchange',
    'core/admin/',
    'core/container.ts',
    'core/credentials/credentials.ts',
    'core/handover/',
    'core/simulator/',
    'core/store/cluster/store.ts',
    'core/store/distant/line.ts',
    'core/store/embedded/store.ts',
    'core/store/shared/',
    'core/telemetry/gate.ts',
    'core/workers/'
  )
}

/** Finds a pattern in lines of code, without comments. Files below a folder in `except` may contain it. */
function findInCode(pattern: RegExp, says: (found: string) => string, ...except: readonly string[]): Finding {
  const files = globSync('{core,plugins,config}/**/*.ts', { cwd: root }).filter(
    (file) => !except.some((folder) => file.startsWith(folder))
  )
  const found = files.flatMap((file) =>
    readFileSync(join(root, file), 'utf8')
      .split('\n')
      .flatMap((line, index) => {
        const [match] = pattern.exec(line.replace(/(^|\s)(\/\/|\/?\*).*/, '')) ?? []
        return match === undefined ? [] : [`${file}:${index + 1} ${says(match)}`]
      })
  )
  return { ok: found.length === 0, output: found.join('\n') }
}

const startedAt = performance.now()
const results = await Promise.all(
  Object.entries(checks).map(async ([name, check]) => {
    const { ok, output } = await check()
    console.log(ok ? `✓ ${name}` : `✗ ${name}\n${output.trimEnd()}`)
    return ok
  })
)
const failed = results.filter((ok) => !ok).length
console.log(
  `${results.length - failed} of ${results.length} checks passed in ${((performance.now() - startedAt) / 1000).toFixed(1)} s`
)
process.exitCode = failed === 0 ? 0 : 1
