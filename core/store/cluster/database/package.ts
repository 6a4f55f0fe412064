// The package `pg`. It is optional, and loaded only where the store is PostgreSQL.
import type pg from 'pg'
import manifest from '../../../../package.json' with { type: 'json' }

/** The command that installs the package, in the version that was tested; undefined when it is there. */
export function missingPackage(): string | undefined {
  try {
    import.meta.resolve('pg')
    return undefined
  } catch {
    return `npm install --no-save pg@${manifest.devDependencies.pg}`
  }
}

/**
 * Loads the package.
 * @throws Error with the command that installs it, when it is missing
 */
export async function loadPackage(): Promise<Pick<typeof pg, 'Client' | 'types'>> {
  const command = missingPackage()
  if (command !== undefined)
    throw new Error(`PostgreSQL needs a package that is not installed: run \`${command}\` in the folder of the gateway`)
  return (await import('pg')).default
}
