// Tokens of Microsoft Entra: by a client's secret, by the token of a workload, or from a server of the platform.
import { setTimeout as sleep } from 'node:timers/promises'
import { textOfFile } from './file.ts'
import { SourceFault, sendable } from './grant.ts'
import type { Grant } from './grant.ts'
import type { AzureSource } from './source.ts'
import { askServer, tokenIn } from './token-server.ts'
import type { Question } from './token-server.ts'

const entra = 'Entra'
const platform = 'the server for managed identities'

/** How often and after which pauses (in milliseconds) the server of a machine is asked again while it is busy. */
const pauses = [1000, 2000, 4000]

/** Asks for a token. */
export async function askAzure(source: AzureSource, signal: AbortSignal): Promise<Grant> {
  const asked = Date.now()
  const { by, scope, clientId } = source
  if (by.kind === 'secret' || by.kind === 'workload') {
    const proof =
      by.kind === 'secret'
        ? { client_secret: by.clientSecret }
        : {
            client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
            // The platform replaces the file, so it is read each time.
            client_assertion: sendable(await textOfFile(by.file), by.file)
          }
    const form = { grant_type: 'client_credentials', client_id: clientId ?? '', scope, ...proof }
    const { text } = await askServer({ url: by.tokenUrl, who: entra, form, signal })
    return tokenIn(text, entra, asked)
  }
  const version = by.kind === 'app' ? '2019-08-01' : '2018-02-01'
  const url = new URL(by.endpoint)
  url.searchParams.set('api-version', version)
  url.searchParams.set('resource', scope.replace(/\/\.default$/, ''))
  if (clientId !== undefined) url.searchParams.set('client_id', clientId)
  const headers: Record<string, string> = by.kind === 'app' ? { 'x-identity-header': by.header } : { metadata: 'true' }
  const { text } = await askPatiently({ url: url.href, who: platform, headers, signal })
  return tokenIn(text, platform, asked)
}

/** The server of a machine may not be ready yet, or be asked by too many. */
async function askPatiently(question: Question): ReturnType<typeof askServer> {
  for (const pause of pauses) {
    try {
      return await askServer(question)
    } catch (error) {
      if (!(error instanceof SourceFault) || !/status (?:404|410|429|5\d\d)/.test(error.message)) throw error
      await sleep(pause, undefined, { signal: question.signal, ref: false }).catch(() => {
        throw error
      })
    }
  }
  return askServer(question)
}
