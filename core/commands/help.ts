// Makes the help texts from the declarations of the commands.
import type { Command } from './command.ts'
import { listRule } from './list-option.ts'

/** The help of the program: all commands, and the exit codes. */
export function programHelp(commands: readonly Command[]): string {
  const rows = commands.map(
    (command) => [`sluice ${[command.name, ...command.operands].join(' ')}`, command.summary] as const
  )
  return [
    'A multi-tenant gateway in front of AI models.',
    '',
    ...columns([
      ...rows,
      ['sluice help [COMMAND]', 'shows this, or the help of a command'],
      ['sluice version', 'shows the version']
    ]),
    '',
    'Exit codes',
    ...columns([
      ['0', 'done'],
      ['1', 'failed while running'],
      ['2', 'a wrong command line, or a configuration with problems'],
      ['130', 'start: stopped at once, by a second signal']
    ])
  ].join('\n')
}

/** The help of one command, with its options. */
export function commandHelp({ name, summary, operands, options, notes }: Command): string {
  const rows = Object.entries(options).map(
    ([option, { value, text, default: otherwise }]) =>
      [
        `--${option}${value === undefined ? '' : ` ${value}`}`,
        `${text}${otherwise === undefined ? '' : ` (default ${otherwise})`}`
      ] as const
  )
  const hasList = Object.values(options).some(({ list }) => list)
  return [
    `sluice ${[name, ...operands].join(' ')} [options]`,
    `  ${summary}`,
    '',
    ...columns(rows),
    ...(hasList ? ['', listRule] : []),
    ...(notes === '' ? [] : ['', notes.trim()])
  ].join('\n')
}

function columns(rows: readonly (readonly [string, string])[]): string[] {
  const width = Math.max(...rows.map(([left]) => left.length))
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`)
}
