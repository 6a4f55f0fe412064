// The access of a user with a token of their own. It comes from a file or the environment, and never from the command
// line, which other users of a machine can read.
import { readFileSync } from 'node:fs'
import { readListener } from '../../../config/address.ts'
import { configOf, UsageError } from '../command/command.ts'
import { RemoteAdmin, urlOf } from './remote-admin.ts'
import { Unreachable } from './unreachable.ts'

/** What says which gateway is asked, and with which token. */
interface Asked {
  readonly config: string
  readonly admin: string | undefined
  readonly 'token-file': string | undefined
}

/**
 * The gateway that is asked with a token of the user's own, or at an address that they give; undefined without either.
 * @throws UsageError when the address or the file is none; Error when the gateway does not let them in
 */
export async function ownAccess(options: Asked): Promise<RemoteAdmin | undefined> {
  const { SLUICE_TOKEN: fromEnvironment = '', SLUICE_ADMIN_URL: elsewhere = '' } = process.env
  const file = options['token-file']
  const token = file === undefined ? fromEnvironment : tokenIn(file)
  const given = options.admin ?? elsewhere
  if (token === '' && given === '') return undefined
  // An HTTP header could not carry it, and the message about that would show it.
  if (!/^[\x20-\x7e]*$/.test(token))
    throw new UsageError(`${nameOf(file, token)} has other characters than tokens have: is it one line?`)
  const url = given === '' ? await listenerOf(options.config) : originOf(given, options.admin)
  const remote = new RemoteAdmin(url, token)
  await remote.introduce(nameOf(file, token))
  return remote
}

function nameOf(file: string | undefined, token: string): string {
  if (file !== undefined) return `the token in ${file}`
  return token === '' ? 'no token (give one in SLUICE_TOKEN or --token-file)' : 'the token of SLUICE_TOKEN'
}

function tokenIn(file: string): string {
  let text: string
  try {
    text = readFileSync(file, 'utf8').trim()
  } catch (error) {
    throw new UsageError(`--token-file cannot be read: ${(error as Error).message}`)
  }
  if (text === '') throw new UsageError(`--token-file ${file} is empty: it must have a token`)
  return text
}

/** The address of the listener of a configuration. The other secrets of the file may be missing. */
async function listenerOf(config: string): Promise<string> {
  const listener = readListener(config, process.env) ?? (await configOf({ config })).settings.admin
  if (!listener || listener.port === 0)
    throw new Unreachable('The configuration has no admin.port at which the gateway could be asked: give --admin URL.')
  return urlOf(listener)
}

function originOf(given: string, option: string | undefined): string {
  const url = URL.canParse(given) ? new URL(given) : undefined
  if (url && /^https?:$/.test(url.protocol) && url.href === `${url.origin}/`) return url.origin
  const name = option === undefined ? 'SLUICE_ADMIN_URL' : '--admin'
  throw new UsageError(`${name} is no address of an admin listener: it must be like https://sluice-admin.internal`)
}
