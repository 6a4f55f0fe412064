// A log of one's own: a line for each request with what it cost, and one for work that goes on when that has ended.
import { appendFileSync } from 'node:fs'
import { answered, charge, definePlugin, goingOn, recordOf, reservation } from 'sluice/plugin'

export default definePlugin({
  name: 'audit',
  summary: 'Writes a line for each request into a file.',
  options: { file: { type: 'string', format: 'path', description: 'Where the lines go.' } },
  required: ['file'],
  awaits: [charge],
  setup({ file }, { services }) {
    const write = (record, more) => {
      const { request_id, endpoint, outcome, cost_nano } = record
      appendFileSync(file, `${JSON.stringify({ request_id, endpoint, outcome, cost_nano, ...more })}\n`)
    }
    return {
      onSettled(exchange, outcome) {
        const record = recordOf(exchange, outcome)
        // The work that it has begun has its record written when it ends.
        const work = exchange.find(goingOn)
        if (work) return work.keep(record)
        services.requests.append(record, JSON.stringify(record), exchange.receivedAt)
        const held = exchange.find(reservation)?.amount ?? 0n
        write(record, { held_nano: held.toString(), early: exchange.find(answered) === true })
      },
      onConcluded: (record) => write(record, { concluded: true })
    }
  }
})
