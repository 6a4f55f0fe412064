// Renders option schemas as a Markdown table.
import type { OptionSchema, OptionSchemas, Unit } from '../../core/options/schema.ts'

/** Options whose names begin with a prefix: `quota.`. */
export interface Section {
  prefix: string
  options: OptionSchemas
  required: readonly string[]
}

/**
 * Renders one row per option, with nested options after the one that has them. A section without options has no row.
 */
export function optionsTable(sections: readonly Section[]): string {
  const rows = sections.flatMap(({ prefix, options, required }) => rowsOf(prefix, options, required))
  return ['| key | value | default | meaning |', '|---|---|---|---|', ...rows, ''].join('\n')
}

function rowsOf(prefix: string, options: OptionSchemas, required: readonly string[]): string[] {
  return Object.entries(options).flatMap(([name, option]) => {
    const standard = defaultWords(option, required.includes(name))
    const cells = [`\`${prefix}${name}\``, valueWords(option), standard, option.description]
    return [
      `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`,
      ...nested(`${prefix}${name}`, option)
    ]
  })
}

function nested(prefix: string, option: OptionSchema): string[] {
  if (option.type === 'array') return nested(`${prefix}[]`, option.items)
  if (option.type !== 'object') return []
  if ('additionalProperties' in option) return nested(`${prefix}.<name>`, option.additionalProperties)
  return rowsOf(`${prefix}.`, option.properties, option.required ?? [])
}

function valueWords(option: OptionSchema): string {
  switch (option.type) {
    case undefined:
      return 'anything'
    case 'array':
      return option.items.type === undefined ? 'list' : `list: ${valueWords(option.items)}`
    case 'object': {
      if ('additionalProperties' in option) return `map: name to ${valueWords(option.additionalProperties)}`
      return [
        'map',
        ...(option.orList ? ['list of maps'] : []),
        ...(option.orText ? ['text'] : []),
        ...(option.or ?? []).map((word) => `\`${word}\``)
      ].join(' or ')
    }
    case 'boolean':
      return '`true` or `false`'
    case 'string': {
      if (option.enum) return option.enum.map((choice) => `\`${choice}\``).join(', ')
      return option.format ? unitWords[option.format] : 'text'
    }
    default:
      return [
        (option.type === 'integer' ? 'whole number' : 'number') + rangeWords(option),
        ...(option.or ?? []).map((word) => `\`${word}\``)
      ].join(' or ')
  }
}

const unitWords: Readonly<Record<Unit, string>> = {
  duration: 'duration',
  size: 'size',
  usd: 'US dollars',
  date: 'date',
  decimal: 'price',
  path: 'path'
}
/** Upper bounds from here on only keep sums safe, and are not shown. */
const guard = 1_000_000

function rangeWords({ minimum, maximum = guard }: { minimum?: number; maximum?: number }): string {
  const from = minimum === undefined ? '' : ` from ${minimum}`
  return maximum >= guard ? from : `${from} to ${maximum}`
}

function defaultWords(option: OptionSchema, required: boolean): string {
  if (required) return '**required**'
  if (!('default' in option) || option.default === undefined) return ''
  const plain = typeof option.default === 'object' && Object.keys(option.default ?? {}).length === 0
  return plain ? '' : `\`${JSON.stringify(option.default)}\``
}
