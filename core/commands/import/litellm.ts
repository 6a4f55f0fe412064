// The command `sluice import litellm`: makes a gateway.yaml of a configuration of LiteLLM's proxy, with the keys of its
// database, or a models section of its price file.
import { basename } from 'node:path'
import { defineCommand, jsonOption, UsageError } from '../command/command.ts'
import { Progress } from '../output/progress.ts'
import { Draft } from './draft.ts'
import { Fates } from './fates.ts'
import { importConfig } from './litellm-config.ts'
import { importKeys } from './litellm-keys.ts'
import { importModels, writeModels } from './prices.ts'
import { textIn, writeDraft } from './write.ts'

export const importLitellm = defineCommand({
  name: 'import litellm',
  summary: 'makes a gateway.yaml of a config.yaml and its keys, or models of a price file',
  operands: ['FILE'],
  options: {
    keys: { value: 'DUMP', text: 'a dump of its PostgreSQL database: keys and teams' },
    tenant: { value: 'NAME', text: 'the tenant that all of it belongs to (default litellm)' },
    free: { text: 'models whose price nobody knows cost nothing, instead of being left out' },
    models: { value: 'A,B', list: true, text: 'of a price file, models to take; * stands for anything' },
    out: { value: 'FILE', text: 'write to a new file instead of standard output' },
    ...jsonOption
  },
  notes: `
FILE is a config.yaml of the proxy, or model_prices_and_context_window.json. What became of each setting (approximated
or dropped, and why) is on standard error; with --json all is in one object.
Of a config.yaml comes a whole gateway.yaml, with os.environ/NAME as variables. Clients keep their keys: --keys takes
their hashes from a dump, pg_dump -t '"LiteLLM_VerificationToken"' -t '"LiteLLM_TeamTable"'. Teams become projects.
Of a price file comes a models: section, whose prices are taken over digit by digit. gateway.yaml takes only models that
a channel serves: choose them with --models gpt-5,claude-*
A file made with --out models.yaml need not be copied into it: say "include: [models.yaml]".`,
  async run({ keys, tenant = 'litellm', free, models, out, json }, [file]) {
    const fates = new Fates()
    const draft = new Draft(fates, { free, tenant })
    const prices = await Progress.of('reading the file', (tell) => {
      const text = textIn(file!)
      if (text.trimStart().startsWith('{') || text.trimStart().startsWith('[')) {
        if (keys !== undefined) throw new UsageError('--keys is for a config.yaml, and this is a price file')
        return importModels(file!, text, models ?? ['*'], tell)
      }
      if (models !== undefined) throw new UsageError('--models is for a price file, and this is a config.yaml')
      read(file!, () => importConfig(text, draft, fates))
      if (keys !== undefined) read(keys, () => importKeys(textIn(keys), draft, fates))
      return undefined
    })
    return prices
      ? writeModels(file!, prices, { out, json })
      : writeDraft(draft, fates, { source: basename(file!), out, json })
  }
})

/** Reads the file of this name. @throws Error which names it */
function read(name: string, take: () => void): void {
  try {
    take()
  } catch (error) {
    throw new Error(`${name} is not in this format: ${(error as Error).message}`)
  }
}
