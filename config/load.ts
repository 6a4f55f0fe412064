// Loads gateway.yaml: text, variables, shape, references and plugin options; every problem at once, with its place.
import { createHash } from 'node:crypto'
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'
import { dirname } from 'node:path'
import { checkerOf, isMap } from '../core/options/schema-check.ts'
import { chainSchema, readChain } from './chain.ts'
import { readChannels } from './channels.ts'
import { readModels } from './models.ts'
import { problemsOf, Report } from './report.ts'
import { readSettings } from './settings.ts'
import { fileRequired, fileShape } from './shape.ts'
import { parseSource } from './source.ts'
import { readKeys, readTenants } from './tenants.ts'
import type { Channel } from '../core/catalogue/catalogue.ts'
import type { OptionSchemas } from '../core/options/schema.ts'
import type { Config, ConfigTenant, Problem } from '../core/catalogue/settings.ts'
import type { Plugins } from './chain.ts'
import type { Finding } from './report.ts'
import type { Environment } from './variables.ts'

/** What a file is read with. */
export interface Surroundings {
  /** Variables for `${NAME}`: `process.env`. */
  env: Environment
  /** Where channels with `protocol: simulator` lead, with the version: `http://127.0.0.1:41234/v1`. */
  simulatorUrl: URL
  plugins: Plugins
}

/** What a file says, or everything that is wrong with it. */
export type Loaded = { config: Config; problems?: undefined } | { config?: undefined; problems: readonly Problem[] }

const largest = 1024 * 1024

/**
 * Reads and checks a file. Has no effect and never throws, whatever is in the file. What needs more than the file is
 * checked elsewhere: the order of the chain, and names against the key store.
 */
export function loadConfig(file: string, surroundings: Surroundings): Loaded {
  const findings: Finding[] = []
  const bytes = readBytes(file, findings)
  const config = bytes && readConfig(file, bytes, surroundings, findings)
  return config ? { config } : { problems: problemsOf(file, findings) }
}

function readConfig(file: string, bytes: Buffer, surroundings: Surroundings, findings: Finding[]): Config | undefined {
  const { env, simulatorUrl, plugins } = surroundings
  const text = decode(bytes, findings)
  const source = text === undefined ? undefined : parseSource(text, env, (at, message) => findings.push({ at, message }))
  if (!source) return undefined
  const report = new Report(source, findings)

  const sections: Record<string, unknown> = Object.create(null)
  for (const [name, section] of Object.entries(source.value as object)) if (!name.startsWith('x-')) sections[name] = section
  const { value, faults } = checkerOf(fileShape, fileRequired)(sections, source.origin())
  for (const fault of faults) report.fault(fault)

  // With faults a section may be of any type: what is no section is skipped, and what refers to it goes unchecked.
  const channels = isMap(value.channels) ? readChannels(value.channels, simulatorUrl, report) : undefined
  const models = isMap(value.models) ? readModels(value.models, channels, report) : undefined
  const tenants = isMap(value.tenants) ? readTenants(value.tenants, report) : undefined
  const keys = Array.isArray(value.keys) ? readKeys(value.keys, tenants, report) : []
  const chain = Array.isArray(value.chain) ? readChain(value.chain, plugins, source, report) : []
  const settings = readSettings(value, dirname(file), report)
  if (!settings || !channels || !models || !tenants || findings.length > 0) return undefined

  const schemas: OptionSchemas = { ...fileShape, chain: chainSchema(chain, plugins) }
  return {
    file,
    hash: createHash('sha256').update(bytes).digest('hex'),
    settings,
    channels: channels as Map<string, Channel>,
    simulated: Object.keys(value.channels).filter((name) => value.channels[name]!.protocol === 'simulator'),
    models,
    tenants: tenants as Map<string, ConfigTenant>,
    keys,
    chain,
    redacted: Object.fromEntries(Object.keys(sections).map((name) => [name, source.redacted(`/${name}`, schemas[name]!)]))
  }
}

function readBytes(file: string, findings: Finding[]): Buffer | undefined {
  let descriptor: number | undefined
  try {
    // Opening a pipe would wait for its writer.
    descriptor = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK)
    const isFile = fstatSync(descriptor).isFile()
    const bytes = isFile ? readUpTo(descriptor, largest + 1) : Buffer.alloc(0)
    if (isFile && bytes.length <= largest) return bytes
    findings.push({ message: isFile ? 'is larger than 1 MiB' : 'is not a file' })
  } catch (error) {
    const { code = '', message } = error as NodeJS.ErrnoException
    findings.push({ message: readErrors[code] ?? `can not be read: ${message}` })
  } finally {
    if (descriptor !== undefined) closeSync(descriptor)
  }
  return undefined
}

const readErrors: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file: name one with --config',
  EACCES: 'this user may not read the file'
}

function readUpTo(descriptor: number, most: number): Buffer {
  const buffer = Buffer.allocUnsafe(most)
  let length = 0
  for (let read = -1; read !== 0 && length < most; length += read) {
    read = readSync(descriptor, buffer, length, most - length, null)
  }
  return buffer.subarray(0, length)
}

function decode(bytes: Buffer, findings: Finding[]): string | undefined {
  const nul = bytes.indexOf(0)
  if (nul >= 0) {
    const lines = bytes.subarray(0, nul).toString('latin1').split('\n')
    const at = { line: lines.length, column: lines.at(-1)!.length + 1 }
    findings.push({ at, message: 'a NUL byte: the file must be text in UTF-8' })
    return undefined
  }
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    findings.push({ message: 'the file must be text in UTF-8' })
    return undefined
  }
}
