// How a workload on AWS shows Google who it is: a signed question (GetCallerIdentity) that Google asks in its stead.
// https://docs.cloud.google.com/iam/docs/reference/sts/rest/v1/TopLevel/token (subject_token)
import { createHash } from 'node:crypto'
import { awsChain, missingLibrary } from './aws.ts'
import { SourceFault } from './grant.ts'
import type { AwsKeys } from './grant.ts'
import { amzDate, signatureOf } from './signature.ts'

/** What is asked where the file does not say it. */
const usualQuestion = 'https://sts.{region}.amazonaws.com?Action=GetCallerIdentity&Version=2011-06-15'
/** Its hosts are everywhere, and any of them knows all callers. */
const usualRegion = 'us-east-1'

/**
 * The question as a token. `question`: its address, with `{region}` in it. `audience`: the pool that it is for, which
 * the signature covers. The keys are those of AWS's chain.
 * @throws SourceFault when there are no keys, or it is another question
 */
export async function callerIdentity(question: unknown, audience: string): Promise<string> {
  const region = process.env['AWS_REGION'] || process.env['AWS_DEFAULT_REGION'] || usualRegion
  const address = (typeof question === 'string' ? question : question === undefined ? usualQuestion : '').replace(
    '{region}',
    region
  )
  const url = URL.canParse(address) ? new URL(address) : undefined
  // Whoever writes the file could have any other question signed, and asked with the rights of this machine.
  const isIt =
    url?.protocol === 'https:' &&
    /^sts(\.[a-z0-9-]+)?\.amazonaws\.com(\.cn)?$/.test(url.host) &&
    url.pathname === '/' &&
    url.searchParams.getAll('Action').join() === 'GetCallerIdentity'
  if (!isIt) throw new SourceFault('the question for AWS is none for GetCallerIdentity at a host of its STS')
  const install = missingLibrary()
  if (install !== undefined) throw new SourceFault(`the keys of AWS need a library: ${install}`)
  const chain = await awsChain({ kind: 'aws', region, service: 'sts', profile: undefined, role: undefined })
  const keys = (await chain()).secret as AwsKeys
  const signed = {
    host: url.host,
    'x-amz-date': amzDate(Date.now()),
    'x-goog-cloud-target-resource': audience,
    ...(keys.sessionToken !== undefined && { 'x-amz-security-token': keys.sessionToken })
  }
  const request = {
    method: 'POST',
    target: `/${url.search}`,
    headers: signed,
    bodyHash: createHash('sha256').digest('hex')
  }
  const all = { ...signed, authorization: signatureOf(request, keys, { region, service: 'sts' }) }
  const headers = Object.entries(all).map(([key, value]) => ({ key, value }))
  return encodeURIComponent(JSON.stringify({ url: address, method: 'POST', headers }))
}
