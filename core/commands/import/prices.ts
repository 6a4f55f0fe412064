// Makes a models section for gateway.yaml of a price file of LiteLLM, and says what became of its fields.
import { basename } from 'node:path'
import { importPrices } from '../../../config/prices/litellm-list.ts'
import type { Fate, Imported } from '../../../config/prices/litellm-list.ts'
import { compileGlobs } from '../../catalogue/globs.ts'
import { exits } from '../command/command.ts'
import type { Tell } from '../../store/embedded/care/tell.ts'
import { some } from './fates.ts'
import { writeNew } from './write.ts'

/** Prints or writes the models of a price file, and says what became of its fields. Returns the exit code. */
export function writeModels(
  file: string,
  imported: Imported,
  { out, json }: { out: string | undefined; json: boolean }
): number {
  const text = `# Models of ${basename(file)}, prices in US dollars per million tokens. Keep those that a channel serves.\n${imported.yaml}`
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

/**
 * Imports models of the text of a price file.
 * @throws Error when the text is in another format, or has none of the models that were asked for
 */
export function importModels(file: string, text: string, models: readonly string[], tell: Tell): Imported {
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
