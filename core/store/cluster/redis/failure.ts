// What an error of Redis says: that the server cannot do its work, or that a key has something else in it.

/** What is wrong with a server. Before version 7 an error of a script has it in its middle. */
const states =
  /\b(?:READONLY|OOM|LOADING|MISCONF|MASTERDOWN|NOREPLICAS|CLUSTERDOWN|TRYAGAIN|BUSY|NOAUTH|NOPERM|UNKILLABLE)\b/

/** The first word of an error of Redis, the code of one of the system, or its name. It repeats nothing secret. */
export function reasonOf(error: unknown): string {
  const { code, name, message } = error as NodeJS.ErrnoException
  const [state] = (isOfScript(message) && states.exec(message)) || (/^[A-Z]{2,}\b/.exec(message) ?? [])
  return state ?? code ?? name ?? 'unknown'
}

/** Whether a script failed on what its keys have. Other keys are not concerned. */
export function isOfKeys(error: unknown): boolean {
  const { message } = error as Error
  return message.startsWith('WRONGTYPE') || (isOfScript(message) && !states.test(message))
}

/** Errors that a script ends with name the line of it. */
function isOfScript(message: string): boolean {
  return message.includes('user_script')
}
