// Loads gateway.yaml: its text, variables, shape, references and plugin options. Reports every problem at once, with
// its place.
import { below, checkerOf, isMap } from '../core/options/schema-check.ts'
import { readAlerts } from './sections/alerts.ts'
import { readTelemetry } from './sections/telemetry.ts'
import { Certificates } from './sections/certificates.ts'
import { chainSchema, readChain } from './sections/chain.ts'
import { readChannels } from './channels/channels.ts'
import { Costs } from './prices/costs.ts'
import { warnOfClear, warnOfOldPrices, warnOfReach } from './doubts.ts'
import { checkPlugins } from './sections/plugins.ts'
import { Files } from './files/files.ts'
import { hashOf, pathBeside, readFiles } from './files/includes.ts'
import { readModels } from './models/models.ts'
import { withPresets } from './presets/presets.ts'
import { problemsOf, Report } from './report.ts'
import { readSettings } from './settings.ts'
import { fileRequired, fileShape } from './shape.ts'
import { checkReach } from './channels/reach.ts'
import { readKeys, readTenants } from './sections/tenants.ts'
import type { Channel } from '../core/catalogue/catalogue.ts'
import type { OptionSchemas } from '../core/options/schema.ts'
import type { Config, ConfigTenant, Problem } from '../core/catalogue/settings.ts'
import type { Plugins } from './sections/chain.ts'
import type { Reading } from './files/includes.ts'
import type { Finding } from './report.ts'
import type { Source } from './files/source.ts'
import type { Environment } from './files/variables.ts'

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

/** A configuration, or everything that is wrong with it. */
export type Loaded = { config: Config; problems?: undefined } | { config?: undefined; problems: readonly Problem[] }

/**
 * Reads and checks a file with what it includes. It changes nothing and never throws, whatever is in the files. The
 * order of the chain, and names that must differ from those in the key store, are checked elsewhere. `files` collects
 * what was read, even for a file with problems: a change of any of them may change the result.
 */
export function loadConfig(file: string, surroundings: Surroundings, files = new Files()): Loaded {
  return loadReading(readFiles(file, surroundings.env, files), surroundings)
}

/** Checks files that were read, as {@link loadConfig} does. */
export function loadReading(reading: Reading, surroundings: Surroundings): Loaded {
  const findings = [...reading.findings]
  const { source, whole, texts } = reading
  const config = source && whole ? configOf(reading, source, surroundings, findings) : undefined
  return config ? { config } : { problems: problemsOf([reading.file, ...texts.map(({ file }) => file)], findings) }
}

function configOf(
  { file, texts, folders, files, warnings }: Reading,
  source: Source,
  surroundings: Surroundings,
  findings: Finding[]
): Config | undefined {
  const { env, simulatorUrl, plugins, unusable = new Map() } = surroundings
  const report = new Report(source, findings)
  report.warnings.push(...warnings)

  const sections: Record<string, unknown> = Object.assign(Object.create(null), source.value)
  if (sections['channels'] !== undefined) sections['channels'] = withPresets(sections['channels'])
  const { value, faults } = checkerOf(fileShape, fileRequired)(sections, source.origin())
  for (const fault of faults) report.fault(fault)

  // After a fault a section may have any type. A section of the wrong type is skipped, and references to it are not
  // checked.
  const certificates = new Certificates(files, report)
  const channels = isMap(value.channels)
    ? readChannels(value.channels, { simulatorUrl, certificates, env }, report)
    : undefined
  const costs = isMap(value.channels) ? new Costs(value.channels, value.models, report) : undefined
  const models = isMap(value.models) ? readModels(value.models, channels, costs, report) : undefined
  const tenants = isMap(value.tenants) ? readTenants(value.tenants, report) : undefined
  const keys = Array.isArray(value.keys) ? readKeys(value.keys, tenants, report) : []
  if (isMap(value.plugins)) checkPlugins(value.plugins, unusable, files, report)
  const chain = Array.isArray(value.chain) ? readChain(value.chain, { plugins, unusable }, source, report) : []
  if (models) checkReach(value, [...models.keys()], report)
  const alerts = readAlerts(value.alerts, env, report)
  const telemetry = readTelemetry(value.telemetry, channels, report)
  const settings = readSettings(value, certificates, env, report)
  if (!settings || !channels || !models || !tenants || findings.length > 0) return undefined

  const schemas = schemasOf(chain, plugins)
  warnOfClear(sections, schemas, source, report)
  warnOfOldPrices({ models: value.models, channels: value.channels }, Date.now(), report)
  warnOfReach({ models, tenants: tenants as Map<string, ConfigTenant>, keys }, report)
  const hidden = new Map<string, string>()
  const own = new Set([file, ...texts.map((one) => one.file), ...folders.map((name) => `${pathBeside(file, name)}/`)])
  return {
    file,
    hash: hashOf(texts),
    settings,
    channels: channels as Map<string, Channel>,
    simulated: Object.keys(value.channels).filter((name) => value.channels[name]!.protocol === 'simulator'),
    models,
    tenants: tenants as Map<string, ConfigTenant>,
    keys,
    chain,
    alerts,
    telemetry,
    texts,
    folders,
    places: placesOf(Object.keys(sections), models.keys(), tenants as Map<string, ConfigTenant>, report),
    warnings: problemsOf(
      texts.map((one) => one.file),
      report.warnings
    ),
    redacted: Object.fromEntries(
      Object.keys(sections).map((name) => [name, source.redacted(`/${name}`, schemas[name]!, hidden)])
    ),
    hidden,
    named: new Map([...files.hashes].filter(([path]) => !own.has(path)))
  }
}

/** The schemas of all sections, with the options of the plugins that the chain names. */
export function schemasOf(chain: Config['chain'], plugins: Plugins): OptionSchemas {
  return { ...fileShape, chain: chainSchema(chain, plugins) }
}

/** As {@link Config.places}. */
function placesOf(
  sections: readonly string[],
  models: Iterable<string>,
  tenants: ReadonlyMap<string, ConfigTenant>,
  report: Report
): Config['places'] {
  const paths: string[][] = sections.map((name) => [name])
  for (const name of models) paths.push(['models', name, 'price'])
  for (const [tenant, { projects }] of tenants) {
    const ofTenant = ['tenants', tenant]
    paths.push(ofTenant)
    for (const [project, { members }] of projects) {
      const ofProject = [...ofTenant, 'projects', project]
      paths.push(ofProject, ...Array.from(members.keys(), (member) => [...ofProject, 'members', member]))
    }
  }
  return new Map(paths.map((path) => [path.reduce<string>(below, ''), report.place(path)]))
}
