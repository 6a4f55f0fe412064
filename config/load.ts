// Loads gateway.yaml: its text, variables, shape, references and plugin options. Reports every problem at once, with
// its place.
import { dirname } from 'node:path'
import { checkerOf, isMap } from '../core/options/schema-check.ts'
import { readAlerts } from './alerts.ts'
import { Certificates } from './certificates.ts'
import { chainSchema, readChain } from './chain.ts'
import { readChannels } from './channels.ts'
import { Costs } from './costs.ts'
import { warnOfClear, warnOfOldPrices, warnOfReach } from './doubts.ts'
import { decode } from './text.ts'
import { checkPlugins } from './plugins.ts'
import { Files } from './files.ts'
import { readModels } from './models.ts'
import { withPresets } from './presets.ts'
import { problemsOf, Report } from './report.ts'
import { readSettings } from './settings.ts'
import { fileRequired, fileShape } from './shape.ts'
import { parseSource } from './source.ts'
import { checkReach } from './reach.ts'
import { readKeys, readTenants } from './tenants.ts'
import type { Channel } from '../core/catalogue/catalogue.ts'
import type { OptionSchemas } from '../core/options/schema.ts'
import type { Config, ConfigTenant, Problem } from '../core/catalogue/settings.ts'
import type { Plugins } from './chain.ts'
import type { Finding } from './report.ts'
import type { Environment } from './variables.ts'

/** What loading a file needs. */
export interface Surroundings {
  /** The variables for `${NAME}`: `process.env`. */
  env: Environment
  /** The address of the simulator, with the version: `http://127.0.0.1:41234/v1`. */
  simulatorUrl: URL
  plugins: Plugins
  /** The plugins of the section `plugins:` that could not be loaded, with the reasons. */
  unusable?: ReadonlyMap<string, string>
}

/** The configuration of a file, or everything that is wrong with it. */
export type Loaded = { config: Config; problems?: undefined } | { config?: undefined; problems: readonly Problem[] }

/**
 * Reads and checks a file. It changes nothing and never throws, whatever is in the file. The order of the chain, and
 * names that must differ from those in the key store, are checked elsewhere. `files` collects what was read, even for a
 * file with problems: a change of any of them may change the result.
 */
export function loadConfig(file: string, surroundings: Surroundings, files = new Files()): Loaded {
  const findings: Finding[] = []
  const { bytes, fault } = files.read(file)
  if (!bytes) findings.push({ message: fault === 'there is no such file' ? `${fault}: name one with --config` : fault })
  const config = bytes && readConfig(file, bytes, surroundings, files, findings)
  return config ? { config } : { problems: problemsOf(file, findings) }
}

function readConfig(
  file: string,
  bytes: Buffer,
  surroundings: Surroundings,
  files: Files,
  findings: Finding[]
): Config | undefined {
  const { env, simulatorUrl, plugins, unusable = new Map() } = surroundings
  const text = decode(bytes, (finding) => void findings.push(finding))
  const source =
    text === undefined ? undefined : parseSource(text, env, (at, message) => findings.push({ at, message }))
  if (!source) return undefined
  const report = new Report(source, findings)

  const sections: Record<string, unknown> = Object.create(null)
  for (const [name, section] of Object.entries(source.value as object))
    if (!name.startsWith('x-')) sections[name] = section
  if (sections['channels'] !== undefined) sections['channels'] = withPresets(sections['channels'])
  const { value, faults } = checkerOf(fileShape, fileRequired)(sections, source.origin())
  for (const fault of faults) report.fault(fault)

  // After a fault a section may have any type. A section of the wrong type is skipped, and references to it are not
  // checked.
  const certificates = new Certificates(dirname(file), files, report)
  const channels = isMap(value.channels)
    ? readChannels(value.channels, { simulatorUrl, certificates, env }, report)
    : undefined
  const costs = isMap(value.channels) ? new Costs(value.channels, report) : undefined
  const models = isMap(value.models) ? readModels(value.models, channels, costs, report) : undefined
  const tenants = isMap(value.tenants) ? readTenants(value.tenants, report) : undefined
  const keys = Array.isArray(value.keys) ? readKeys(value.keys, tenants, report) : []
  if (isMap(value.plugins)) checkPlugins(file, value.plugins, unusable, files, report)
  const chain = Array.isArray(value.chain)
    ? readChain(value.chain, { plugins, unusable, folder: dirname(file) }, source, report)
    : []
  if (models) checkReach(value, [...models.keys()], report)
  const alerts = readAlerts(value.alerts, env, report)
  const settings = readSettings(value, dirname(file), certificates, env, report)
  if (!settings || !channels || !models || !tenants || findings.length > 0) return undefined

  const schemas: OptionSchemas = { ...fileShape, chain: chainSchema(chain, plugins) }
  warnOfClear(sections, schemas, source, report)
  warnOfOldPrices({ models: value.models, channels: value.channels }, Date.now(), report)
  warnOfReach({ models, tenants: tenants as Map<string, ConfigTenant>, keys }, report)
  const hidden = new Map<string, string>()
  return {
    file,
    hash: files.hashes.get(file)!,
    settings,
    channels: channels as Map<string, Channel>,
    simulated: Object.keys(value.channels).filter((name) => value.channels[name]!.protocol === 'simulator'),
    models,
    tenants: tenants as Map<string, ConfigTenant>,
    keys,
    chain,
    alerts,
    text: text!,
    priced: new Map(Array.from(models.keys(), (name) => [name, report.place(file, ['models', name, 'price'])])),
    warnings: problemsOf(file, report.warnings),
    redacted: Object.fromEntries(
      Object.keys(sections).map((name) => [name, source.redacted(`/${name}`, schemas[name]!, hidden)])
    ),
    hidden,
    named: new Map([...files.hashes].filter(([path]) => path !== file))
  }
}
