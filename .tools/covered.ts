// Which code of a module a test has run, by what Node writes into NODE_V8_COVERAGE.
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** How often the characters between two offsets (in UTF-16 units) were run. An inner range corrects an outer one. */
interface Range {
  startOffset: number
  endOffset: number
  count: number
}

/** By the URL of a module: for each process that loaded it, the ranges of all its functions. */
type Modules = Record<string, Range[][]>

/** What a run of one test has run of the modules that are asked about. */
export class Covered {
  readonly #modules: Modules

  constructor(modules: Modules) {
    this.#modules = modules
  }

  /** What the files in a folder say that Node wrote coverage into, about modules with these URLs. */
  static in(folder: string, wanted: ReadonlySet<string>): Covered {
    const modules: Modules = {}
    for (const name of globSync('*.json', { cwd: folder })) {
      const { result } = JSON.parse(readFileSync(join(folder, name), 'utf8')) as {
        result: { url: string; functions: { ranges: Range[] }[] }[]
      }
      for (const { url, functions } of result)
        if (wanted.has(url)) (modules[url] ??= []).push(functions.flatMap(({ ranges }) => ranges))
    }
    return new Covered(modules)
  }

  toJSON(): Modules {
    return this.#modules
  }

  /** Whether what stands at an offset of a module was run in any process. */
  has(url: string, offset: number): boolean {
    return (this.#modules[url] ?? []).some((loaded) => {
      const around = loaded.filter(({ startOffset, endOffset }) => startOffset <= offset && offset < endOffset)
      // Of two ranges with the same length, the later one is the inner one.
      const innermost = around.toSorted((one, other) => lengthOf(other) - lengthOf(one)).at(-1)
      return innermost !== undefined && innermost.count > 0
    })
  }
}

const lengthOf = ({ startOffset, endOffset }: Range): number => endOffset - startOffset
