// The route of the chain: its plugins in order, what each needs and fills, what it takes and what it refuses.
import { figureMinutes, figuresOf } from '../../exchange/state/chain-figures.ts'
import { isMap } from '../../options/schema-check.ts'
import type { AdminParts, Answer, Call } from '../api/contract.ts'
import { anything, count, flag, listOf, mapOf, nullable, number, object, oneOf, said, text } from '../api/shape.ts'
import type { Shape } from '../api/shape.ts'
import { missingWorkers } from '../api/shapes.ts'

const ms = nullable(number)

/** The answer. */
export const chainShape: Shape = object(
  {
    hash: said(text, 'Of the configuration.'),
    minutes: said(count, 'What the figures are of: the present minute and those before it.'),
    plugins: listOf(
      object({
        name: text,
        summary: text,
        source: said(nullable(text), 'The module that the file names; null for a plugin that is shipped.'),
        hooks: listOf(text),
        reads: oneOf('head', 'body'),
        needs: listOf(text),
        awaits: listOf(text),
        provides: listOf(text),
        skipped: said(flag, 'It takes no part in explanations.'),
        options: said(mapOf(anything), 'As the file has them, without secrets.'),
        defaults: said(mapOf(anything), 'Of the options that the file does not set.'),
        exchanges: said(count, 'Those that it took part in.'),
        took_p50_ms: said(ms, 'Milliseconds in its hooks together, per exchange, without its stages.'),
        took_p99_ms: ms,
        answered: said(count, 'Exchanges that it answered in the place of an upstream.'),
        refused: said(listOf(object({ code: text, count })), 'Exchanges that ended with an error of it.')
      })
    ),
    missing_workers: missingWorkers
  },
  { optional: ['missing_workers'] }
)

/** Shows the chain in use with the figures of its plugins. */
export async function showChain(_call: Call, { generations, engine }: AdminParts): Promise<Answer> {
  const { told, missing } = await engine.figures()
  const tallies = [...told.values()]
  const { chain, config } = generations.current
  const { skipped } = chain.rehearsed
  const modules = config.redacted['plugins']
  const entries: readonly unknown[] = Array.isArray(config.redacted['chain']) ? config.redacted['chain'] : []
  const plugins = chain.members.map(({ plugin, hooks }, place) => {
    const { name, summary, reads, needs, awaits, provides } = plugin
    const entry = entries[place]
    const written = isMap(entry) ? entry[name] : undefined
    const options = isMap(written) ? written : {}
    const defaults = Object.entries(plugin.options).flatMap(([option, schema]) =>
      Object.hasOwn(options, option) || !('default' in schema) ? [] : [[option, schema.default]]
    )
    const { exchanges, p50Ms, p99Ms, answered, refused } = figuresOf(name, tallies)
    return {
      name,
      summary,
      source: isMap(modules) && typeof modules[name] === 'string' ? modules[name] : null,
      hooks,
      reads,
      needs: needs.map((slot) => slot.name),
      awaits: awaits.map((slot) => slot.name),
      provides: provides.map((slot) => slot.name),
      skipped: skipped.includes(name),
      options,
      defaults: Object.fromEntries(defaults),
      exchanges,
      took_p50_ms: p50Ms,
      took_p99_ms: p99Ms,
      answered,
      refused
    }
  })
  return { json: { hash: config.hash, minutes: figureMinutes, plugins, missing_workers: missing } }
}
