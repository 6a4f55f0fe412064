// Claude on Vertex AI and on Amazon Bedrock: scripted platforms that take nothing but what these take, and have the
// simulator answer.
import { generateKeyPairSync } from 'node:crypto'
import type { KeyPairKeyObjectResult } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { startSimulator } from '../../core/simulator/simulator.ts'
import { awsRegion, scriptedBedrock, withAwsKeys } from './bedrock.ts'
import type { BedrockAnswer } from './bedrock.ts'
import { eventFrame } from './event-stream.ts'
import { scriptedVertex } from './platforms.ts'

type Json = Record<string, any>

/** Asks the simulator for a message: as the platform was asked, with what stands in its path put back into the body. */
async function simulatedMessages(t: Test): Promise<(body: Json, stream: boolean, betas?: string) => Promise<Response>> {
  const simulator = await startSimulator({ key: 'of-the-simulator' })
  t.teardown(() => simulator.close())
  return ({ anthropic_version: _version, anthropic_beta: named, ...body }, stream, betas = named?.join()) =>
    fetch(new URL('/v1/messages', simulator.url), {
      method: 'POST',
      headers: {
        'x-api-key': 'of-the-simulator',
        'content-type': 'application/json',
        'anthropic-version': '2023-06-01',
        ...(betas !== undefined && { 'anthropic-beta': betas })
      },
      body: JSON.stringify({ ...body, model: 'demo', stream })
    })
}

/** The keys of the service account of all channels: to make them takes a tenth of a second. */
let pair: KeyPairKeyObjectResult | undefined

/** A channel of Claude on Vertex AI, with the token of a service account. */
export async function claudeOnVertex(t: Test): Promise<Json> {
  const ask = await simulatedMessages(t)
  const { publicKey, privateKey } = (pair ??= generateKeyPairSync('rsa', { modulusLength: 2048 }))
  const vertex = await scriptedVertex(
    t,
    async ({ headers, body }) => {
      const answer = await ask(body, body['stream'] === true, headers['anthropic-beta'] as string | undefined)
      if (body['stream'] === true && answer.ok) return { sse: await answer.text() }
      return { status: answer.status, json: await answer.json() }
    },
    publicKey
  )
  const folder = mkdtempSync(join(tmpdir(), 'sluice-account-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'account.json')
  const account = {
    type: 'service_account',
    client_email: 'gateway@p.iam.gserviceaccount.com',
    private_key_id: 'k1',
    private_key: privateKey.export({ type: 'pkcs8', format: 'pem' }),
    token_uri: `${vertex.url}/token`
  }
  writeFileSync(file, JSON.stringify(account), { mode: 0o600 })
  return {
    preset: 'vertex-claude',
    protocol: 'anthropic',
    base_url: `${vertex.url}/v1/projects/p/locations/europe-west4`,
    private: true,
    credential: { gcp: { credentials: file, hosts: ['127.0.0.1'] } }
  }
}

/** A channel of Claude on Bedrock, whose requests are signed. */
export async function claudeOnBedrock(t: Test): Promise<Json> {
  withAwsKeys(t)
  const ask = await simulatedMessages(t)
  const { url } = await scriptedBedrock(t, async ({ operation, body }): Promise<BedrockAnswer> => {
    const streams = operation === 'invoke-with-response-stream'
    const answer = await ask(body, streams)
    if (!streams || !answer.ok) return { status: answer.status, json: await answer.json() }
    const events = [...(await answer.text()).matchAll(/^data: (.*)$/gm)]
    return {
      frames: events.map(([, data]) => eventFrame('chunk', { bytes: Buffer.from(data!).toString('base64'), p: 'abc' }))
    }
  })
  return {
    preset: 'bedrock-claude',
    protocol: 'anthropic',
    base_url: url,
    private: true,
    credential: { aws: { region: awsRegion } }
  }
}
