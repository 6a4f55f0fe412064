// What a browser is called by people, of what it calls itself.
import { visible } from '../../parts/text.ts'

/** The more particular ones stand first: most say that they are Chrome or Safari as well. */
const browsers = [
  ['Edge', /\bEdg(?:e|A|iOS)?\//],
  ['Opera', /\bOPR\//],
  ['Firefox', /\b(?:Firefox|FxiOS)\//],
  ['Chrome', /\b(?:HeadlessChrome|Chrome|CriOS)\//],
  ['Safari', /\bSafari\//]
] as const

const systems = [
  ['Android', /\bAndroid\b/],
  ['iOS', /\b(?:iPhone|iPad)\b/],
  ['Windows', /\bWindows\b/],
  ['macOS', /\bMac OS X\b/],
  ['Linux', /\bLinux\b/]
] as const

/** `Firefox on Linux`; what is not known by name is shown as it is, shortened. */
export function browserOf(agent: string | null): string {
  if (agent === null || agent === '') return 'not told'
  const browser = browsers.find(([, pattern]) => pattern.test(agent))?.[0]
  const system = systems.find(([, pattern]) => pattern.test(agent))?.[0]
  if (browser === undefined) return visible(agent.length > 40 ? `${agent.slice(0, 39)}…` : agent)
  return system === undefined ? browser : `${browser} on ${system}`
}
