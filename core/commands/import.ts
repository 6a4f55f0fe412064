// The command `sluice import litellm`: makes a models section for gateway.yaml from a price file of LiteLLM.
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { basename } from 'node:path'
import { importPrices } from '../../config/prices-import.ts'
import type { Fate, Imported } from '../../config/prices-import.ts'
import { compileGlobs } from '../catalogue/globs.ts'
import { defineCommand, exits, jsonOption } from './command/command.ts'
import { Progress } from './output/progress.ts'
import type { Tell } from '../store/embedded/care/tell.ts'

/** The largest file in bytes. The published file has two million. */
const largest = 64 * 1024 * 1024

export const importModels = defineCommand({
  name: 'import litellm',
  summary: 'makes models with their prices of a model_prices_and_context_window.json',
  operands: ['FILE'],
  options: {
    models: { value: 'A,B', list: true, default: '*', text: 'models to take; * stands for anything' },
    out: { value: 'FILE', text: 'write to a new file instead of standard output' },
    ...jsonOption
  },
  notes: `
Prints a models: section for gateway.yaml. Prices are taken over digit by digit. What became of each field of the
file (mapped, approximated or dropped, and why) is on standard error; with --json all is in one object.
gateway.yaml takes only models that a channel serves: choose them with --models gpt-5,claude-*
A file made with --out models.yaml need not be copied into it: say "include: [models.yaml]".`,
  async run({ models, out, json }, [file]) {
    const imported = await Progress.of('reading the file', (tell) => importFile(file!, models, tell))
    const text = `# Models of ${basename(file!)}, prices in US dollars per million tokens. Keep those that a channel serves.\n${imported.yaml}`
    if (out !== undefined) writeNew(out, text)
    if (json) {
      const { models: made, fields, leftOut } = imported
      const result = {
        models: made,
        fields,
        left_out: leftOut,
        ...(out === undefined ? { yaml: text } : { file: out })
      }
      process.stdout.write(`${JSON.stringify(result)}\n`)
      return exits.ok
    }
    if (out === undefined) process.stdout.write(text)
    process.stderr.write(`${reportOf(imported)}\n`)
    return exits.ok
  }
})

/**
 * Imports the models of a file.
 * @throws Error when the file cannot be read, is in another format, or has none of the models that were asked for
 */
function importFile(file: string, models: readonly string[], tell: Tell): Imported {
  let text: string
  try {
    const { size } = statSync(file)
    if (size > largest) throw new Error(`it has ${size} bytes, and ${largest} are the most`)
    text = readFileSync(file, 'utf8')
  } catch (error) {
    throw new Error(`${file} cannot be read: ${(error as Error).message}`)
  }
  let imported: Imported
  try {
    imported = importPrices(text, compileGlobs(models), (done, of) =>
      tell('importing models', { done, of, unit: 'models' })
    )
  } catch (error) {
    throw new Error(`${file} is not in this format: ${(error as Error).message}`)
  }
  if (imported.models > 0) return imported
  const [first] = imported.leftOut
  throw new Error(
    `${file} has no model with a price${models.includes('*') ? '' : ` that is called ${models.join(' or ')}`}${first ? `: ${first.model} ${first.reason}` : ''}`
  )
}

function writeNew(file: string, text: string): void {
  try {
    writeFileSync(file, text, { flag: 'wx' })
  } catch (error) {
    const exists = (error as NodeJS.ErrnoException).code === 'EEXIST'
    throw new Error(
      exists ? `${file} is there already: name a new file` : `${file} cannot be written: ${(error as Error).message}`
    )
  }
}

const fates: readonly Fate[] = ['mapped', 'approximated', 'dropped']

/** Reports which fields were mapped, approximated or dropped, with their models, and which models were left out. */
function reportOf({ models, fields, leftOut }: Imported): string {
  const lines = [`${models} ${models === 1 ? 'model' : 'models'} made, ${leftOut.length} left out`]
  for (const fate of fates) {
    const reports = fields.filter((report) => report.fate === fate)
    if (reports.length > 0)
      lines.push(`${fate}:`, ...reports.map(({ field, note, models }) => `  ${field}: ${note} (${some(models)})`))
  }
  const reasons = Map.groupBy(leftOut, ({ reason }) => reason)
  if (reasons.size > 0)
    lines.push(
      'left out:',
      ...[...reasons].map(([reason, models]) => `  ${reason}: ${some(models.map(({ model }) => model))}`)
    )
  return lines.join('\n')
}

function some(names: readonly string[]): string {
  return names.length <= 4 ? names.join(', ') : `${names.slice(0, 3).join(', ')} and ${names.length - 3} more`
}
