// The one place that makes addresses of scripts: the browser runs no worker of any other (Trusted Types).

interface TrustedPolicy {
  createScriptURL(address: string): string
}

interface TrustedFactory {
  createPolicy(name: string, rules: { createScriptURL(address: string): string }): TrustedPolicy
}

/** The workers of the console. */
const workers: ReadonlySet<string> = new Set(['/console/app/live-worker.ts'])

function known(address: string): string {
  if (workers.has(address)) return address
  throw new TypeError(`${address} is no worker of the console: list it in trusted.ts.`)
}

const factory = (globalThis as { trustedTypes?: TrustedFactory }).trustedTypes
const policy: TrustedPolicy = factory?.createPolicy('sluice', { createScriptURL: known }) ?? { createScriptURL: known }

/**
 * The address of a worker, as `new SharedWorker` takes it.
 * @throws TypeError for any other address
 */
export function workerAddress(address: string): string {
  return policy.createScriptURL(address)
}
