// The command `sluice check`: reports everything that is wrong with a configuration, without starting anything.
import { plugins } from '../../plugins/index.ts'
import { ConfigError, readConfig } from '../program/configuration.ts'
import type { Config } from '../catalogue/settings.ts'
import { operations } from '../operations/index.ts'
import { unpriced } from './unpriced.ts'
import { configOption, defineCommand, exits, jsonOption } from './command.ts'

export const check = defineCommand({
  name: 'check',
  summary: 'says everything that is wrong with the configuration',
  options: { ...configOption, ...jsonOption },
  notes: `
Prints a line for each problem, file:line:column and what to do, and exits with 2. A warning is of what is most likely
a mistake and works as it is written, and of each model whose price charges nothing that an endpoint of its channels
counts. Opens nothing, so it can run beside the gateway.
The file needs the environment that it will run in, as it may ask for variables.`,
  async run({ config: file, json }) {
    const print = (text: string, value: object): void =>
      void process.stdout.write(`${json ? JSON.stringify(value) : text}\n`)
    try {
      const { config } = await readConfig({ file, env: process.env, plugins })
      const sizes = sizesOf(config)
      const summary = Object.entries(sizes)
        .map(([noun, count]) => `${count} ${count === 1 ? noun.slice(0, -1) : noun}`)
        .join(', ')
      const doubts = unpriced(config.models.values(), operations).map((message) => ({ place: file, message }))
      const warnings = [...config.warnings, ...doubts]
      const right = `${file} is right: ${summary}; SHA-256 ${config.hash}`
      const lines = [right, ...warnings.map(({ place, message }) => `${place} warning: ${message}`)]
      print(lines.join('\n'), { ok: true, file, hash: config.hash, ...sizes, problems: [], warnings })
      return exits.ok
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error
      const { problems } = error
      print(problems.map(({ place, message }) => `${place} ${message}`).join('\n'), { ok: false, file, problems })
      return exits.invalid
    }
  }
})

function sizesOf({ channels, models, tenants, keys }: Config): Record<string, number> {
  return { channels: channels.size, models: models.size, tenants: tenants.size, keys: keys.length }
}
