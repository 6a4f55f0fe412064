// The exit codes of the program: one for each kind of failure.

/** Each code with what it says, in the order of the codes. The help and docs/OPERATING.md are made of it. */
const kinds = {
  ok: [0, 'done'],
  failed: [1, 'failed in a way that no other code says; standard error has the reason'],
  invalid: [2, 'a wrong command line, or a configuration with problems (with `check --strict`, with warnings)'],
  found: [
    3,
    'done, and what was looked at is not in order: a book, a bill, a channel; or there is something to repair'
  ],
  inUse: [4, 'the store is in use by another process'],
  damaged: [5, 'a store or a backup is damaged'],
  unreachable: [6, 'no gateway answers, or it does not let the command in'],
  disk: [7, 'a disk is full, fails, or may not be written'],
  interrupted: [130, '`start`: stopped at once, by a second signal']
} as const satisfies Readonly<Record<string, readonly [code: number, text: string]>>

type Kind = keyof typeof kinds

/** The exit codes by their names. */
export const exits = Object.fromEntries(Object.entries(kinds).map(([kind, [code]]) => [kind, code])) as {
  readonly [K in Kind]: (typeof kinds)[K][0]
}

/** All codes, each with what it says. */
export const exitCodes: readonly (readonly [code: number, text: string])[] = Object.values(kinds)

/** The table of the codes, in Markdown. */
export function exitTable(): string {
  const rows = exitCodes.map(([code, text]) => `| ${code} | ${text} |`)
  return ['', '| Exit code | |', '|---|---|', ...rows, ''].join('\n')
}
