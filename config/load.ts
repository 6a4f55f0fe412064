// Loads gateway.yaml: text, variables, shape, references and plugin options; every problem at once, with its place.
import { createHash } from 'node:crypto'
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'
import { dirname } from 'node:path'
import { checkerOf } from '../core/schema-check.ts'
import { chainSchema, readChain } from './chain.ts'
import { readChannels } from './channels.ts'
import { readModels } from './models.ts'
import { Report } from './report.ts'
import { readSettings } from './settings.ts'
import { fileRequired, fileShape } from './shape.ts'
import { parseSource } from './source.ts'
import { readKeys, readTenants } from './tenants.ts'
import type { Channel } from '../core/catalogue.ts'
import type { OptionSchemas } from '../core/schema.ts'
import type { Config, ConfigTenant, Problem } from '../core/settings.ts'
import type { Plugins } from './chain.ts'
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
  const report = new Report(file)
  const bytes = readBytes(file, report)
  const config = bytes && readConfig(file, bytes, surroundings, report)
  return config && report.clean ? { config } : { problems: report.problems() }
}

function readConfig(file: string, bytes: Buffer, { env, simulatorUrl, plugins }: Surroundings, report: Report): Config | undefined {
  const text = decode(bytes, report)
  const source = text === undefined ? undefined : parseSource(text, env, (at, message) => report.at(at, message))
  if (!source) return undefined
  report.read(source)

  const sections: Record<string, unknown> = Object.create(null)
  for (const [name, section] of Object.entries(source.value as object)) if (!name.startsWith('x-')) sections[name] = section
  const { value, faults } = checkerOf(fileShape, fileRequired)(sections, source.show)
  for (const fault of faults) report.fault(fault)

  // With faults a section may be of any type: what is no section is skipped, and what refers to it goes unchecked.
  const channels = isMap(value.channels) ? readChannels(value.channels, simulatorUrl, report) : undefined
  const models = isMap(value.models) ? readModels(value.models, channels, report) : undefined
  const tenants = isMap(value.tenants) ? readTenants(value.tenants, report) : undefined
  const keys = Array.isArray(value.keys) ? readKeys(value.keys, tenants, report) : []
  const chain = Array.isArray(value.chain) ? readChain(value.chain, plugins, source, report) : []
  const settings = readSettings(value, dirname(file), report)
  if (!settings || !channels || !models || !tenants || !report.clean) return undefined

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

function isMap(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function readBytes(file: string, report: Report): Buffer | undefined {
  let descriptor: number | undefined
  try {
    // Opening a pipe would wait for its writer.
    descriptor = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK)
    if (!fstatSync(descriptor).isFile()) {
      report.file('is not a file')
      return undefined
    }
    const buffer = Buffer.allocUnsafe(largest + 1)
    let length = 0
    for (let read = -1; read !== 0 && length <= largest; length += read) read = readSync(descriptor, buffer, length, buffer.length - length, null)
    if (length > largest) report.file('is larger than 1 MiB')
    return length > largest ? undefined : buffer.subarray(0, length)
  } catch (error) {
    report.file(readErrors[(error as NodeJS.ErrnoException).code ?? ''] ?? `can not be read: ${(error as Error).message}`)
    return undefined
  } finally {
    if (descriptor !== undefined) closeSync(descriptor)
  }
}

const readErrors: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file: name one with --config',
  EACCES: 'this user may not read the file',
  EISDIR: 'is a folder, not a file'
}

function decode(bytes: Buffer, report: Report): string | undefined {
  const nul = bytes.indexOf(0)
  if (nul >= 0) {
    const line = bytes.subarray(0, nul).toString('latin1').split('\n')
    report.at({ line: line.length, column: line.at(-1)!.length + 1 }, 'a NUL byte: the file must be text in UTF-8')
    return undefined
  }
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    report.file('the file must be text in UTF-8')
    return undefined
  }
}
