// The command `sluice plugins`: lists the plugins that a chain may name, with all options.
import { editorSchema } from '../../config/reference/editor-schema.ts'
import { optionsTable } from '../../config/reference/table.ts'
import { plugins as shipped } from '../../plugins/index.ts'
import { readConfig } from '../program/configuration.ts'
import { configOption, defineCommand, exits, jsonOption } from './command/command.ts'

export const listPlugins = defineCommand({
  name: 'plugins',
  summary: 'lists the plugins that the chain may name, those of packages and files too, with their options',
  options: {
    ...configOption,
    ...jsonOption,
    schema: { text: 'a JSON Schema of the configuration with these plugins, for editors' }
  },
  notes: `
Loads the packages and files that the configuration names under "plugins:", which runs their code.`,
  async run({ config: file, json, schema }) {
    const { plugins } = await readConfig({ file, env: process.env, plugins: shipped })
    const print = (text: string): void => void process.stdout.write(`${text}\n`)
    if (schema) print(JSON.stringify(editorSchema(plugins), null, 2))
    else if (json)
      print(
        JSON.stringify(
          [...plugins.values()].map(({ name, summary, options, required }) => ({
            name,
            summary,
            options,
            required,
            shipped: shipped.has(name)
          }))
        )
      )
    else {
      for (const { name, summary, options, required } of plugins.values()) {
        print(`${name}${shipped.has(name) ? '' : ' (of this configuration)'}: ${summary}`)
        if (Object.keys(options).length > 0) print(`\n${optionsTable([{ prefix: '', options, required }])}`)
        else print('')
      }
    }
    return exits.ok
  }
})
