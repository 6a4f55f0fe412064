// Makes the help texts from the declarations of the commands.
import type { Command } from './command/command.ts'
import { examples } from './command/examples.ts'
import { listRule } from './command/list-option.ts'
import { exitCodes } from '../telling/exits.ts'

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
    ...columns(exitCodes.map(([code, text]) => [String(code), text.replaceAll('`', '')]))
  ].join('\n')
}

/** What the help says, for programs. */
export function helpData(commands: readonly Command[]): object {
  return {
    commands: commands.map(({ name, summary, operands, options, notes }) => ({
      name,
      summary,
      operands,
      options: Object.entries(options).map(([option, { value, text, default: otherwise }]) => ({
        name: `--${option}`,
        value: value ?? null,
        text,
        default: otherwise ?? null
      })),
      notes: notes.trim(),
      examples: (examples[name] ?? []).map((line) => `sluice ${line}`)
    })),
    exit_codes: exitCodes.map(([code, text]) => ({ code, text }))
  }
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
    ...(notes === '' ? [] : ['', notes.trim()]),
    '',
    'Examples',
    ...(examples[name] ?? []).map((line) => `  sluice ${line}`)
  ].join('\n')
}

function columns(rows: readonly (readonly [string, string])[]): string[] {
  const width = Math.max(...rows.map(([left]) => left.length))
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`)
}
