// The section `alerts` of gateway.yaml: the webhook that is told when budgets reach their thresholds.
import type { AlertSettings } from '../../core/catalogue/settings.ts'
import type { OptionSchema, OptionValue } from '../../core/options/schema.ts'
import { faultOf } from '../addresses.ts'
import { environmentProxy } from '../channels/proxy.ts'
import type { Report } from '../report.ts'
import type { Environment } from '../files/variables.ts'

export const alertsShape = {
  type: 'object',
  description: 'Who is told when budgets reach their `alerts`. Without it they are only logged and counted.',
  required: ['url', 'secrets'],
  examples: [{ url: 'https://hooks.example.com/sluice', secrets: ['${ALERT_SECRET}'] }],
  properties: {
    url: { type: 'string', secret: true, minLength: 1, description: 'Gets each alert as a POST with JSON.' },
    secrets: {
      type: 'array',
      minItems: 1,
      items: {
        type: 'string',
        secret: true,
        pattern: '^.{16,}$',
        patternErrorMessage: 'a secret of at least 16 characters',
        description: 'At least 16 characters.'
      },
      description: 'What alerts are signed with: two while one takes the place of the other.'
    },
    private: { type: 'boolean', default: false, description: 'Allows a private or loopback address.' }
  }
} as const satisfies OptionSchema

/** Reads the section; undefined when there is none, or it is faulty. */
export function readAlerts(
  entry: OptionValue<typeof alertsShape> | undefined,
  env: Environment,
  report: Report
): AlertSettings | undefined {
  if (entry === undefined || !report.sound('alerts')) return undefined
  const url = URL.canParse(entry.url) ? new URL(entry.url) : undefined
  const fault = url ? faultOf(url, entry.private) : 'must be an address like https://hooks.example.com/sluice'
  if (!url || fault !== undefined) {
    report.value(['alerts', 'url'], fault!)
    return undefined
  }
  const { proxy, fault: unusable } = environmentProxy(url, env)
  if (unusable !== undefined) report.value(['alerts', 'url'], unusable)
  return {
    path: `${url.pathname}${url.search}`,
    secrets: entry.secrets,
    channel: {
      name: 'alerts',
      protocol: 'openai',
      baseUrl: new URL(url.origin),
      credential: '',
      endpoints: new Set(),
      private: entry.private,
      models: new Map(),
      switch: 'on',
      weight: 1,
      priority: 0,
      timeouts: { connect: 10_000, firstByte: 20_000, idle: 20_000, total: 30_000 },
      headers: {},
      modelPath: undefined,
      traits: {},
      reuse: true,
      streamOptions: false,
      tls: undefined,
      proxy,
      http: 1,
      transport: proxy ? 'undici' : 'own'
    }
  }
}
