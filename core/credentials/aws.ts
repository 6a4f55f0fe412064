// Keys of AWS, from the default chain of its own library: environment, profiles, SSO, web identity, containers,
// machines.
import manifest from '../../package.json' with { type: 'json' }
import { SourceFault } from './grant.ts'
import type { Grant } from './grant.ts'
import type { AwsSource } from './source.ts'

const name = '@aws-sdk/credential-providers'

/** The command that installs the library, in the version that was tested; undefined when it is there. */
export function missingLibrary(): string | undefined {
  try {
    import.meta.resolve(name)
    return undefined
  } catch {
    return `npm install --no-save ${name}@${manifest.devDependencies[name]}`
  }
}

/** Of a library's errors only the words that it always says are shown: others may repeat what a program printed. */
const known = /^Could not load credentials from any providers|^Profile \S{1,64} (?:not found|could not be found)/

/** Loads the library, which takes 0.2 s, and prepares its chain for a source. */
export async function awsChain({ region, profile, role }: AwsSource): Promise<() => Promise<Grant>> {
  const { fromNodeProviderChain, fromTemporaryCredentials } = await import('@aws-sdk/credential-providers')
  const clientConfig = { region }
  // The library would read its files once, and would give what it remembers: also five minutes before its end, and what
  // has no end for ever.
  const chain = fromNodeProviderChain({ clientConfig, ignoreCache: true, ...(profile !== undefined && { profile }) })
  return async () => {
    try {
      const own = await chain({ forceRefresh: true })
      const params = { RoleArn: role, RoleSessionName: 'sluice' }
      const keys =
        role === undefined ? own : await fromTemporaryCredentials({ masterCredentials: own, params, clientConfig })()
      const { accessKeyId, secretAccessKey, sessionToken, expiration } = keys
      return { secret: { accessKeyId, secretAccessKey, sessionToken }, expiresAt: expiration?.getTime() }
    } catch (error) {
      const { name: kind, message } = error as Error
      throw new SourceFault(`the chain of AWS gave no keys (${known.exec(message)?.[0] ?? kind})`)
    }
  }
}
