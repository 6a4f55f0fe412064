// The package `@redis/client`. It is optional, and loaded only where limits are shared through Redis.
import type * as Client from '@redis/client'
import manifest from '../../../../package.json' with { type: 'json' }

const name = '@redis/client'

/** The command that installs the package, in the version that was tested; undefined when it is there. */
export function missingPackage(): string | undefined {
  try {
    import.meta.resolve(name)
    return undefined
  } catch {
    return `npm install --no-save ${name}@${manifest.devDependencies[name]}`
  }
}

/**
 * Loads the package.
 * @throws Error with the command that installs it, when it is missing
 */
export async function loadPackage(): Promise<typeof Client> {
  const command = missingPackage()
  if (command !== undefined)
    throw new Error(`Redis needs a package that is not installed: run \`${command}\` in the folder of the gateway`)
  return import('@redis/client')
}
