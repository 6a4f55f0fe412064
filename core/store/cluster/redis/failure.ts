// What an error of Redis says: that the server cannot do its work, or that it cannot for some keys.

/** What is wrong with a server. Before version 7 an error of a script has it in its middle. */
const states =
  /\b(?:READONLY|OOM|LOADING|MISCONF|MASTERDOWN|NOREPLICAS|CLUSTERDOWN|TRYAGAIN|BUSY|NOAUTH|NOPERM|UNKILLABLE)\b/

/** The first word of an error of Redis, the code of one of the system, or its name. It repeats nothing secret. */
export function reasonOf(error: unknown): string {
  const { code, name, message } = error as NodeJS.ErrnoException
  const [state] = (isOfScript(message) && states.exec(message)) || (/^[A-Z]{2,}\b/.exec(message) ?? [])
  return state ?? code ?? name ?? 'unknown'
}

/** Something else is in a key; or the key is another server's, where one of a cluster is asked as if it were alone. */
const ofKeys = /^(?:WRONGTYPE|MOVED|ASK|CROSSSLOT)\b/

/** Whether a script failed on its keys, or what they have. Other keys are not concerned. */
export function isOfKeys(error: unknown): boolean {
  const { message } = error as Error
  return ofKeys.test(message) || (isOfScript(message) && !states.test(message))
}

/** Errors that a script ends with name the line of it. */
function isOfScript(message: string): boolean {
  return message.includes('user_script')
}
