// The command `sluice explain`: what would become of a request, and why a request of the log became what it did.
import { readFileSync } from 'node:fs'
import { text as textOf } from 'node:stream/consumers'
import type { Page } from '../admin/api/contract.ts'
import type { Explanation } from '../admin/requests/explanation.ts'
import { isMap } from '../options/schema-check.ts'
import type { RequestRecord } from '../store/requests.ts'
import { accessOptions, gatewayNote, withGateway } from './asking/admin-access.ts'
import { defineCommand, exits, jsonOption, UsageError } from './command/command.ts'
import type { Given } from './command/command.ts'
import { renderExplanation, renderRecord } from './output/explain-text.ts'

const options = {
  key: { value: 'NAME', text: 'the key that asks' },
  model: { value: 'MODEL', text: 'the model that is asked for' },
  endpoint: { value: 'NAME', text: 'what is asked for, such as chat or images.edits (default chat)' },
  file: { value: 'FILE', text: 'the body of the request as JSON; - for standard input' },
  request: { value: 'ID', text: 'explains a request of the log instead' }
} as const

export const explain = defineCommand({
  name: 'explain',
  summary: 'says what would become of a request, or why one became what it did',
  options: { ...options, ...accessOptions, ...jsonOption },
  notes: `
A key and a model are enough: sluice explain --key alice-laptop --model gpt-5
The running gateway goes through its chain as for a request of a client, and stops where it would be
sent: nothing is sent, held, counted or recorded. FILE may also have the whole request: an object with
body, and any of method, path, headers, endpoint, model, key, and secret for a key itself.
With --request the record is explained that was written then, under what held then.${gatewayNote}`,
  async run(given) {
    const { request, json } = given
    const print = (value: object, text: string): number => {
      process.stdout.write(`${json ? JSON.stringify(value) : text}\n`)
      return exits.ok
    }
    if (request !== undefined) {
      const record = await withGateway(given, (admin) =>
        admin.call<Page<RequestRecord>>('GET', `/admin/v1/requests?request_id=${encodeURIComponent(request)}`)
      )
      const [found] = record.data
      if (!found) throw new Error(`there is no request ${request} in the log: its id is X-Request-Id of the reply`)
      return print(found, renderRecord(found))
    }
    const asked = await askedBy(given)
    const explanation = await withGateway(given, (admin) => admin.call<Explanation>('POST', '/admin/v1/explain', asked))
    return print(explanation, renderExplanation(explanation))
  }
})

/** The request in the form of the admin API. */
async function askedBy({ key, model, endpoint, file }: Given<typeof options>): Promise<object> {
  const told = Object.fromEntries(Object.entries({ key, model, endpoint }).filter(([, value]) => value !== undefined))
  if (file === undefined) {
    if (Object.keys(told).length === 0)
      throw new UsageError('say which request: --key and --model, --file or --request')
    return told
  }
  const read = parsed(file === '-' ? await textOf(process.stdin) : readFileSync(file, 'utf8'), file)
  return isMap(read) && 'body' in read ? { ...read, ...told } : { ...told, body: read }
}

function parsed(text: string, file: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new Error(`${file === '-' ? 'standard input' : file} is no JSON: ${(cause as Error).message}`, { cause })
  }
}
