// The command `sluice check`: reports everything that is wrong with a configuration, without starting anything.
import { plugins } from '../../plugins/index.ts'
import { ConfigError, readConfig } from '../program/configuration.ts'
import type { Config } from '../catalogue/settings.ts'
import { operations } from '../operations/index.ts'
import { unpriced } from './unpriced.ts'
import { showResult } from '../admin/channels/channels.ts'
import { results } from './channels.ts'
import type { Tried } from './channels.ts'
import { configOption, defineCommand, exits, jsonOption } from './command/command.ts'
import { Progress } from './output/progress.ts'

export const check = defineCommand({
  name: 'check',
  summary: 'says everything that is wrong with the configuration',
  options: {
    ...configOption,
    online: { text: 'also sends each channel a small real request, which its upstream may bill' },
    strict: { text: 'exits with 2 when there are warnings too' },
    ...jsonOption
  },
  notes: `
Prints a line for each problem, file:line:column and what to do, and exits with 2. A warning is of what works as it is
written and is most likely a mistake: a secret in clear, a price older than a year, a model that no key may use, a key
that may use no model, a price that charges nothing of what an endpoint counts. It opens nothing, so it can run beside
the gateway. With --online it exits with 3 when a channel failed.
The file needs the environment that it will run in, as it may ask for variables.`,
  async run({ config: file, online, strict, json }) {
    const print = (text: string, value: object): void =>
      void process.stdout.write(`${json ? JSON.stringify(value) : text}\n`)
    try {
      const { config } = await readConfig({ file, env: process.env, plugins })
      const sizes = sizesOf(config)
      const summary = Object.entries(sizes)
        .map(([noun, count]) => `${count} ${count === 1 ? noun.slice(0, -1) : noun}`)
        .join(', ')
      const warnings = [...config.warnings, ...unpriced(config, operations)]
      const ok = !strict || warnings.length === 0
      const tried = online ? await Progress.of('trying the channels', () => tryChannels(file)) : undefined
      const included = config.texts.slice(1).map((one) => one.file)
      const right = `${withFiles(file, included.length)} ${verdictOf(ok, included.length)}: ${summary}; SHA-256 ${config.hash}`
      const lines = [right, ...warnings.map(({ place, message }) => `${place} warning: ${message}`)]
      if (tried) lines.push(results({ results: tried }))
      print(lines.join('\n'), {
        ok,
        file,
        included,
        hash: config.hash,
        ...sizes,
        problems: [],
        warnings,
        ...(tried && { channels: tried })
      })
      if (!ok) return exits.invalid
      return tried?.every((one) => one.ok) === false ? exits.found : exits.ok
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error
      const { problems } = error
      print(problems.map(({ place, message }) => `${place} ${message}`).join('\n'), { ok: false, file, problems })
      return exits.invalid
    }
  }
})

/** Tries all channels, a few at the same time, each with one request after another. */
async function tryChannels(file: string): Promise<Tried['results']> {
  // Imported here, so that a check without it starts in half the time.
  const { withProber } = await import('../container.ts')
  return withProber({ config: file }, async (prober, { channels }) => {
    const all = [...channels.values()]
    const results = await prober.testAll(all)
    return all.flatMap(({ name }, index) => results[index]!.map((result) => ({ channel: name, ...showResult(result) })))
  })
}

function withFiles(file: string, included: number): string {
  return included === 0 ? file : `${file} and ${included} included ${included === 1 ? 'file' : 'files'}`
}

function verdictOf(ok: boolean, included: number): string {
  if (included === 0) return ok ? 'is right' : 'has warnings'
  return ok ? 'are right' : 'have warnings'
}

function sizesOf({ channels, models, tenants, keys }: Config): Record<string, number> {
  return { channels: channels.size, models: models.size, tenants: tenants.size, keys: keys.length }
}
