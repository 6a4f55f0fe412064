// Refuses promises of functions of plugins that are synchronous, for which nobody waits.

/**
 * `returned`: by such a function; `what`: the function, for the message. What a promise rejects with is dropped, as it
 * would end the process.
 * @throws TypeError when it is a promise
 */
export function checkSynchronous(returned: unknown, what: string): void {
  if (!(returned instanceof Promise)) return
  returned.catch(() => {})
  throw new TypeError(`${what} is synchronous, and this one returned a promise`)
}
