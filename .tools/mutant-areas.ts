// The areas in whose modules `npm run mutants` plants faults, and the tests that should notice them.
import { globSync } from 'node:fs'

/** Patterns of paths. Each of them, whatever it says in braces, names a file: {@link lostPatterns}. */
interface Area {
  readonly files: readonly string[]
  readonly tests: readonly string[]
}

export const areas: Readonly<Record<string, Area>> = {
  money: {
    files: ['{core/money,plugins/quota,plugins/usage-meter}/*.ts'],
    tests: [
      'test/core/money/*.test.ts',
      'test/money/{exact,bounds,tools,pieces,usage,protocols,clamp}.test.ts',
      'test/plugins/quota{,-settle,-terms,-turns,-holds,-rehearsals}.test.ts',
      'test/plugins/{decision,estimate,usage-asking,usage-meter,meter,ratelimit-hooks}.test.ts',
      'test/protocols/{usage,openai-usage}.test.ts',
      'test/{config/prices,config/costs,realtime/session}.test.ts',
      'test/engine/{abandoned,platform-embeddings,stand-ins}.test.ts'
    ]
  },
  limits: {
    files: [
      'core/store/memory/{bucket,entry,limits,verdict}.ts',
      'core/store/window.ts',
      'core/store/embedded/balance/{cell,purse}.ts',
      'plugins/ratelimit/*.ts'
    ],
    tests: [
      'test/core/store/memory/limits.test.ts',
      'test/core/store/{window,ledger}.test.ts',
      'test/core/store/embedded/{rolling,balance/purse}.test.ts',
      'test/core/store/shared/{forgetting,limits}.test.ts',
      'test/plugins/{ratelimit,ratelimit-hooks,levels,quota}.test.ts'
    ]
  },
  holds: {
    files: [
      'core/store/embedded/balance/{balances,charged-parts,hold,sums,thresholds}.ts',
      'core/store/embedded/book/{book,hold-table}.ts'
    ],
    tests: [
      'test/core/money/price.test.ts',
      'test/core/store/{ledger,detached,works}.test.ts',
      'test/core/store/embedded/{holds,rolling,costs,deferred,book/{hold-table,purses},balance/{purse,sums}}.test.ts',
      'test/core/store/shared/departure.test.ts',
      'test/core/{handover/holds,program/thresholds}.test.ts',
      'test/plugins/quota.test.ts'
    ]
  },
  auth: {
    files: ['{plugins/auth,core/tenancy}/*.ts', 'core/store/embedded/book/secret-book.ts'],
    tests: [
      'test/plugins/auth.test.ts',
      'test/core/tenancy/*.test.ts',
      'test/core/store/embedded/secrets.test.ts',
      'test/realtime/{secrets,session,looking}.test.ts'
    ]
  },
  translation: {
    files: [
      'core/protocols/{canonical,translation,anthropic,bedrock,gemini,openai-chat,openai-responses}/*.ts',
      'plugins/protocol-translate/*.ts'
    ],
    tests: [
      'test/protocols/!(byte-fuzz).test.ts',
      'test/{engine/embeddings,engine/platforms,engine/stored,e2e/translate}.test.ts',
      'test/plugins/translate-{channel,errors,large}.test.ts'
    ]
  }
}

/** One line for each pattern of an area that names no file below a folder, because that was moved or renamed. */
export function lostPatterns(root: string): string[] {
  return Object.entries(areas).flatMap(([name, { files, tests }]) =>
    [...files, ...tests]
      .flatMap(alternatives)
      .filter((pattern) => globSync(pattern, { cwd: root }).length === 0)
      .map((pattern) => `.tools/mutant-areas.ts: ${pattern} of the area ${name} names no file`)
  )
}

/** A pattern once for everything that it says in braces. */
function alternatives(pattern: string): string[] {
  const [braces, choices] = /\{([^{}]*)\}/.exec(pattern) ?? []
  if (braces === undefined) return [pattern]
  return choices!.split(',').flatMap((choice) => alternatives(pattern.replace(braces, choice)))
}
