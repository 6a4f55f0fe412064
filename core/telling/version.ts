// Which version of the program this is.
import manifest from '../../package.json' with { type: 'json' }

/** As package.json says. */
export const version: string = manifest.version
