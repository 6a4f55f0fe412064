// The command `sluice completion`: prints a script that completes command lines in a shell, made of the table of all
// commands.
import { defineCommand, exits, jsonOption, UsageError } from './command/command.ts'
import type { Command } from './command/command.ts'
import { scriptFor, shells } from './command/completion-scripts.ts'

/** Makes the command; `commands` gives all commands of the program. */
export function completionCommand(commands: () => readonly Command[]): Command {
  return defineCommand({
    name: 'completion',
    summary: 'prints a script that completes command lines in a shell',
    operands: [shells.join('|')],
    options: jsonOption,
    notes: `
bash: source <(sluice completion bash), in ~/.bashrc
zsh: sluice completion zsh > "\${fpath[1]}/_sluice", before compinit
fish: sluice completion fish > ~/.config/fish/completions/sluice.fish
It knows all commands and their options, and completes files where an option or an argument is one.`,
    run({ json }, [name]) {
      const shell = shells.find((known) => known === name)
      if (!shell) throw new UsageError(`${JSON.stringify(name)} is none of ${shells.join(', ')}`)
      const script = scriptFor(shell, commands())
      process.stdout.write(json ? `${JSON.stringify({ shell, script })}\n` : script)
      return exits.ok
    }
  })
}
