// Scripts that complete command lines, one for each shell.
import type { Command } from './command.ts'

/** The shells that there are scripts for. */
export const shells = ['bash', 'zsh', 'fish'] as const

type Shell = (typeof shells)[number]

/** The script of a shell for these commands. */
export function scriptFor(shell: Shell, commands: readonly Command[]): string {
  return { bash: bashScript, zsh: zshScript, fish: fishScript }[shell](commands)
}

/** What a command takes, as a shell sees it. */
interface Shape {
  name: string
  summary: string
  /** With their dashes. */
  options: readonly { flag: string; value: string | undefined; text: string }[]
  /** Words that an argument may be. */
  words: readonly string[]
  /** Whether an argument is a file. */
  files: boolean
}

const isFile = (value: string | undefined): boolean => /^\[?(?:FILE|NEW)\]?$/.test(value ?? '')

function shapeOf({ name, summary, operands, options }: Command): Shape {
  return {
    name,
    summary,
    options: Object.entries(options).map(([option, { value, text }]) => ({ flag: `--${option}`, value, text })),
    words: operands.flatMap((operand) => (operand.includes('|') ? operand.replaceAll(/[[\]]/g, '').split('|') : [])),
    files: operands.some(isFile)
  }
}

/** The words that may follow the first ones of a command line: names of commands, and parts of names. */
function nextWords(commands: readonly Command[]): Map<string, Set<string>> {
  const next = new Map([['', new Set(['help', 'version'])]])
  for (const { name } of commands) {
    const [first, second] = name.split(' ') as [string, string | undefined]
    next.get('')!.add(first)
    if (second !== undefined) next.set(first, (next.get(first) ?? new Set()).add(second))
  }
  return next
}

/** Text in single quotes, as shells read it. */
const quoted = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`

/** Text without what a shell could take for more than text, for descriptions. */
const plain = (text: string): string => text.replaceAll(/['"`$\\:[\]]/g, '')

function bashScript(commands: readonly Command[]): string {
  const cases = commands.map(shapeOf).map(({ name, options, words, files }) => {
    const flags = options.map(({ flag }) => flag)
    const valued = options.filter(({ value }) => value !== undefined)
    const after = valued.map(({ flag, value }) => `${flag}) kind=${isFile(value) ? 'files' : 'nothing'} ;;`)
    return `    ${quoted(`${name} `)}*)
      flags=${quoted(flags.join(' '))} words=${quoted(words.join(' '))} kind=${files ? 'files' : 'words'}
      case "$before" in ${after.length === 0 ? '*) ;;' : after.join(' ')} esac ;;`
  })
  const halves = [...nextWords(commands)]
    .filter(([first]) => first !== '')
    .map(([first, words]) => `    ${quoted(`${first} `)}*) words=${quoted([...words].join(' '))} ;;`)
  return `# Completes command lines of sluice in bash: source <(sluice completion bash)
_sluice() {
  local now=\${COMP_WORDS[COMP_CWORD]} before=\${COMP_WORDS[COMP_CWORD - 1]}
  local line="\${COMP_WORDS[*]:1:COMP_CWORD - 1} " flags='' words='' kind=words IFS=$' \\t\\n'
  [ "\${line%% *}" = help ] && line=\${line#help }
  case "$line" in
${cases.join('\n')}
${halves.join('\n')}
    ' ' | '') words=${quoted([...nextWords(commands).get('')!].join(' '))} ;;
  esac
  case "$now" in -*) [ "$kind" = nothing ] || { words="$flags" kind=words; } ;; esac
  IFS=$'\\n'
  case "$kind" in
    files) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$now")) ;;
    words) COMPREPLY=($(IFS=' '; compgen -W "$words" -- "$now")) ;;
    nothing) COMPREPLY=() ;;
  esac
}
complete -F _sluice sluice
`
}

function zshScript(commands: readonly Command[]): string {
  const shapes = commands.map(shapeOf)
  const listOf = (words: Iterable<readonly [string, string]>): string =>
    [...words].map(([word, text]) => quoted(`${word}:${plain(text)}`)).join(' ')
  const summaryOf = (name: string): string =>
    shapes.find((shape) => shape.name === name)?.summary ?? `commands of ${name}`
  const cases = shapes.map(({ name, options, words, files }) => {
    const specs = options.map(({ flag, value, text }) =>
      quoted(`${flag}[${plain(text)}]${value === undefined ? '' : `:${value}:${isFile(value) ? '_files' : ''}`}`)
    )
    const rest = files ? "'*:file:_files'" : words.length > 0 ? quoted(`*:word:(${words.join(' ')})`) : "'*: :'"
    return `    ${quoted(`${name} `)}*) _arguments ${[...specs, rest].join(' ')} ;;`
  })
  const halves = [...nextWords(commands)].map(
    ([first, words]) =>
      `    ${first === '' ? "' ' | ''" : quoted(`${first} `)}) next=(${listOf(Array.from(words, (word) => [word, summaryOf(first === '' ? word : `${first} ${word}`)] as const))}); _describe command next ;;`
  )
  return `#compdef sluice
# Completes command lines of sluice in zsh: sluice completion zsh > "\${fpath[1]}/_sluice"
_sluice() {
  local -a next
  local line="\${words[2,CURRENT-1]} "
  case "$line" in
${cases.join('\n')}
${halves.join('\n')}
  esac
}
_sluice "$@"
`
}

function fishScript(commands: readonly Command[]): string {
  const lines = commands.map(shapeOf).flatMap(({ name, options, words, files }) => {
    const at = `-n ${quoted(`__sluice_in ${name}`)}`
    return [
      ...options.map(
        ({ flag, value, text }) =>
          `complete -c sluice ${at} -l ${flag.slice(2)}${value === undefined ? '' : isFile(value) ? ' -r -F' : ' -x'} -d ${quoted(plain(text))}`
      ),
      ...(words.length > 0 ? [`complete -c sluice ${at} -a ${quoted(words.join(' '))}`] : []),
      ...(files ? [`complete -c sluice ${at} -F`] : [])
    ]
  })
  const summaryOf = (name: string): string => commands.find((command) => command.name === name)?.summary ?? ''
  const halves = [...nextWords(commands)].flatMap(([first, words]) =>
    Array.from(words, (word) => {
      const name = first === '' ? word : `${first} ${word}`
      return `complete -c sluice -n ${quoted(`__sluice_at ${first}`.trim())} -a ${word} -d ${quoted(plain(summaryOf(name)))}`
    })
  )
  return `# Completes command lines of sluice in fish: sluice completion fish > ~/.config/fish/completions/sluice.fish
function __sluice_at
    set -l words (commandline -opc)
    test "$words[2..]" = "$argv"
end
function __sluice_in
    set -l words (commandline -opc)
    set -l count (count $argv)
    test (count $words) -gt $count; and test "$words[2..(math $count + 1)]" = "$argv"
end
complete -c sluice -f
${[...halves, ...lines].join('\n')}
`
}
