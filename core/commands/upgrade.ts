// The command `sluice upgrade`: the next process takes the place of the running gateway.
import { accessOptions, gatewayNote, withGateway } from './asking/admin-access.ts'
import { defineCommand, exits, jsonOption } from './command/command.ts'
import { Progress } from './output/progress.ts'

/** Longer than a gateway waits for the next process to load and to open the store. */
const patienceMs = 150_000

/** The answer of the gateway. */
interface Done {
  ok: true
  pid: number
  generation: number
  gap_ms: number
}

export const upgradeGateway = defineCommand({
  name: 'upgrade',
  summary: 'has a new process take the place of the running gateway, without refusing a connection',
  options: { ...accessOptions, ...jsonOption },
  notes: `
The running gateway starts the program that is installed now, with its own arguments, and hands its
sockets and its store over to it; what is under way there ends there, within limits.drain_timeout. When
the new process cannot take over (a file with problems, a version that hands over in another way, a
changed address), the gateway serves on as before, and this says why and exits with 1. Before:
\`sluice check\`. It cannot replace process 1 of a container, nor run on Windows.${gatewayNote}`,
  run: async (options) =>
    withGateway(options, async (admin) => {
      const done = await Progress.of('waiting for the next process', () =>
        admin.call<Done>('POST', '/admin/v1/upgrade', undefined, patienceMs)
      )
      process.stdout.write(
        options.json
          ? `${JSON.stringify(done)}\n`
          : `Process ${done.pid} serves now (generation ${done.generation}); requests waited for ${done.gap_ms} ms.\n`
      )
      return exits.ok
    })
})
