// Finds what is wrong with the gateway now.
import { statfsSync } from 'node:fs'
import { byAccount } from '../../catalogue/account.ts'
import type { Channel } from '../../catalogue/catalogue.ts'
import { folderOf } from '../../catalogue/store-place.ts'
import { undeliveredDocuments } from '../../program/alerts.ts'
import { switchDocuments } from '../../program/channel-switches.ts'
import { expiriesOf, fixedExpiryOf } from '../../program/expiries.ts'
import type { AdminParts } from '../api/contract.ts'
import { healthIn } from '../channels/channels.ts'
import type { Trouble } from './trouble.ts'

const day = 86_400_000
/** How long before its end a credential is a trouble, and a serious one. */
const soon = 14 * day
const verySoon = 2 * day
/** How long before its end a model's sunset is a trouble. */
const sunsetSoon = 30 * day
/** The share of a disk below which it is filling, and below which it is about to be full. */
const lowShare = 0.1
const veryLowShare = 0.03
/** The most warnings of the file that are listed. */
const mostOfFile = 50

type Parts = Pick<AdminParts, 'store' | 'generations' | 'reloader' | 'backups' | 'credentials' | 'workers'>

/** Everything that is wrong but budgets. Those of the whole gateway have no tenant. */
export function findTroubles(parts: Parts, now: number): Trouble[] {
  return [
    ...ofStore(parts),
    ...ofDisk(parts),
    ...ofChannels(parts),
    ...ofReload(parts),
    ...ofWorkers(parts),
    ...ofBackups(parts),
    ...ofAlerts(parts),
    ...ofCertificates(parts, now),
    ...ofCredentials(parts),
    ...ofModels(parts, now),
    ...ofFile(parts)
  ]
}

function ofStore({ store }: Parts): Trouble[] {
  return store.health().troubles.map(({ ailment, text, cause, remedy, refuses, since }) => ({
    id: `store ${ailment}`,
    kind: 'store',
    severity: refuses ? 'critical' : 'warning',
    since,
    text: `The store: ${text}; ${cause}.`,
    remedy: sentence(remedy),
    link: 'configuration',
    tenant: null
  }))
}

function ofDisk({ generations }: Parts): Trouble[] {
  const folder = folderOf(generations.current.config.settings.store)
  let share: number
  let free: number
  try {
    const { bavail, bsize, blocks } = statfsSync(folder)
    free = bavail * bsize
    share = bavail / blocks
  } catch {
    // Where the system does not say it, a disk that is full shows as a trouble of the store.
    return []
  }
  if (!(share < lowShare)) return []
  return [
    {
      id: 'disk',
      kind: 'disk',
      severity: share < veryLowShare ? 'critical' : 'warning',
      text: `The disk of the store is filling: ${Math.round(share * 100)} % is free, ${Math.round(free / 2 ** 20)} MiB.`,
      remedy: 'Make room on it, or let the store keep less (store.requests, store.journal).',
      link: 'configuration',
      tenant: null
    }
  ]
}

function ofChannels(parts: Parts): Trouble[] {
  const { generations, store } = parts
  const { catalogue } = generations.current
  const health = healthIn(parts)
  const out = new Set<Channel>()
  const troubles: Trouble[] = []
  for (const channel of catalogue.channels.values()) {
    const { name } = channel
    const link = `channels/${encodeURIComponent(name)}`
    const switched = catalogue.switched.get(channel)
    if (switched) {
      out.add(channel)
      const stored = store.documents.find(switchDocuments, name)
      const whose = stored && channel.switch === 'on' ? `${stored.by} switched it` : 'the file says so'
      troubles.push({
        id: `channel ${name} ${switched}`,
        kind: 'channel_switched',
        severity: 'notice',
        since: stored?.since,
        text: `The channel ${name} is ${switched === 'off' ? 'off' : 'draining'}: ${whose}.`,
        remedy: stored
          ? 'Enable it when its upstream may be used again.'
          : 'Change it in gateway.yaml when it may be used again.',
        link,
        tenant: null
      })
      continue
    }
    const { state = 'healthy', reason, since, credentials = [] } = health[name] ?? {}
    // One that only rests, as its upstream asked, is what several are for.
    for (const one of credentials)
      if (one.state === 'ejected' || one.state === 'probing')
        troubles.push({
          id: `credential ${name} ${one.name}`,
          kind: 'credential',
          severity: 'warning',
          since: one.since ?? undefined,
          text: sentence(
            `The credential ${one.name} of the channel ${name} is left out: ${one.reason ?? 'it is refused'}`
          ),
          remedy:
            'Give the channel another one in its place, and reload; the others of the channel are used meanwhile.',
          link,
          tenant: null
        })
    if (state === 'healthy') continue
    out.add(channel)
    const how = state === 'cooling' ? 'paused' : 'ejected'
    troubles.push({
      id: `channel ${name} ${how}`,
      kind: 'channel_out',
      severity: how === 'paused' ? 'notice' : 'warning',
      since: since ?? undefined,
      text: sentence(`The channel ${name} is ${how}: ${reason ?? 'its attempts fail'}`),
      remedy:
        how === 'paused'
          ? 'It is used again by itself; a higher limit at its upstream, or another channel, takes more.'
          : 'Test it, and see to its address, its credential and its upstream; it is tried again by itself.',
      link,
      tenant: null
    })
  }
  for (const { name, channels } of catalogue.models.values()) {
    if (channels.length === 0 || !channels.every((channel) => out.has(channel))) continue
    troubles.push({
      id: `model ${name}`,
      kind: 'model_out',
      severity: 'critical',
      since: Math.max(...channels.map((channel) => health[channel.name]?.since ?? 0)) || undefined,
      text: `The model ${name} has no channel that works: its requests fail.`,
      remedy: `See to ${channels.length === 1 ? `its channel ${channels[0]!.name}` : `one of its ${channels.length} channels`}, or give it another one.`,
      link: `channels?model=${encodeURIComponent(name)}`,
      tenant: null
    })
  }
  return troubles
}

function ofReload({ reloader }: Parts): Trouble[] {
  const { last } = reloader
  if (!last || last.ok) return []
  const [first, ...others] = last.problems
  const more = others.length === 0 ? '' : ` (and ${others.length} more)`
  return [
    {
      id: 'reload',
      kind: 'reload',
      severity: 'warning',
      since: last.time,
      text: sentence(
        `The last reload was refused, and the earlier configuration is in use: ${first?.place} ${first?.message}${more}`
      ),
      remedy: 'Mend the file, which is then reloaded, or roll back.',
      link: 'configuration',
      tenant: null
    }
  ]
}

function ofWorkers({ workers }: Parts): Trouble[] {
  return (workers?.reasons ?? []).map((reason) => ({
    id: 'workers',
    kind: 'worker',
    severity: workers!.serves ? 'warning' : 'critical',
    text: sentence(`A worker has ended: ${reason}`),
    remedy: 'Another one takes its place by itself; the log and GET /admin/v1/workers say why it ended.',
    link: 'configuration',
    tenant: null
  }))
}

function ofBackups({ backups }: Parts): Trouble[] {
  const { failure, overdue, newest } = backups.standing
  if (failure === undefined && !overdue) return []
  return [
    {
      id: 'backup',
      kind: 'backup',
      severity: 'warning',
      since: newest,
      text:
        failure === undefined
          ? 'No backup was made for longer than store.backups says.'
          : sentence(`Backups fail: ${failure}`),
      remedy: 'See to the folder of store.backups: it has to be there, to be writable and to have room.',
      link: 'configuration',
      tenant: null
    }
  ]
}

function ofAlerts({ store }: Parts): Trouble[] {
  const waiting = store.documents.all(undeliveredDocuments).filter(({ attempts }) => attempts > 0)
  if (waiting.length === 0) return []
  return [
    {
      id: 'alerts',
      kind: 'alerts',
      severity: 'warning',
      since: Math.min(...waiting.map(({ since }) => since)),
      text: `The webhook of alerts takes none: ${waiting.length} wait${waiting.length === 1 ? 's' : ''} to be sent again.`,
      remedy: 'See to the address of alerts in gateway.yaml and to who listens there; each is given up after a day.',
      link: 'configuration',
      tenant: null
    }
  ]
}

function ofCertificates({ generations }: Parts, now: number): Trouble[] {
  const { config } = generations.current
  const ending = (what: string, ends: number, remedy: string, link: string, kind: Trouble['kind']): Trouble[] => {
    if (ends - now > soon) return []
    const when = new Date(ends).toISOString()
    return [
      {
        id: `${kind} ${what}`,
        kind,
        severity: ends - now > verySoon ? 'warning' : 'critical',
        since: ends <= now ? ends : undefined,
        text: `${what} ${ends <= now ? 'has expired' : 'expires'}: ${when}.`,
        remedy,
        link,
        tenant: null
      }
    ]
  }
  const listener = expiriesOf(config).find(([{ use }]) => use === 'listen')
  return [
    ...(listener
      ? ending(
          'The certificate of the listener',
          listener[1] * 1000,
          'Put a new one in its place, and reload.',
          'configuration',
          'certificate'
        )
      : []),
    ...Array.from(config.channels.values())
      .flatMap(byAccount)
      .flatMap((channel) => {
        const ends = fixedExpiryOf(channel)
        if (ends === undefined) return []
        const link = `channels/${encodeURIComponent(channel.name)}`
        const which = channel.credentialName === undefined ? '' : ` ${channel.credentialName}`
        return ending(
          `The credential${which} of the channel ${channel.name}`,
          ends,
          'Give the channel a new one, and reload.',
          link,
          'credential'
        )
      })
  ]
}

/** Those that renew themselves are a trouble when they do not. */
function ofCredentials({ credentials }: Parts): Trouble[] {
  return credentials.states.flatMap(({ channels, trouble, usable, expiresAt }) =>
    channels.flatMap((name): Trouble[] => {
      if (!trouble) return []
      const end = expiresAt === undefined ? '' : ` until ${new Date(expiresAt).toISOString()}`
      return [
        {
          id: `credential renewal ${name}`,
          kind: 'credential',
          severity: usable ? 'warning' : 'critical',
          since: trouble.since,
          text: sentence(
            `The credential of the channel ${name} cannot be renewed: ${trouble.reason}; ${usable ? `the present one is used${end}` : 'there is none'}`
          ),
          remedy: 'See to its source, which is asked again by itself.',
          link: `channels/${encodeURIComponent(name)}`,
          tenant: null
        }
      ]
    })
  )
}

function ofModels({ generations }: Parts, now: number): Trouble[] {
  return Array.from(generations.current.catalogue.models.values()).flatMap(({ name, deprecated }): Trouble[] => {
    if (!deprecated || deprecated.since > now) return []
    const { since, sunset, replacement } = deprecated
    const over = sunset !== undefined && sunset <= now
    const near = sunset !== undefined && sunset - now < sunsetSoon
    const end =
      sunset === undefined ? '' : ` and ${over ? 'was' : 'is'} to end on ${new Date(sunset).toISOString().slice(0, 10)}`
    return [
      {
        id: `model ${name} deprecated`,
        kind: 'deprecation',
        severity: over || near ? 'warning' : 'notice',
        since,
        text: `The model ${name} is deprecated${end}.`,
        remedy:
          replacement === undefined
            ? 'Tell who uses it to choose another one.'
            : `Tell who uses it to go to ${replacement}.`,
        link: `models/${encodeURIComponent(name)}`,
        tenant: null
      }
    ]
  })
}

function ofFile({ generations }: Parts): Trouble[] {
  return generations.current.config.warnings.slice(0, mostOfFile).map(({ place, message }) => ({
    id: `file ${place}`,
    kind: 'file',
    severity: 'notice',
    text: sentence(`${place}: ${message}`),
    remedy: 'Change it in the file, or leave it if it is meant so.',
    link: 'configuration',
    tenant: null
  }))
}

/** With a capital letter and a full stop. */
function sentence(words: string): string {
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}${/[.?!]$/.test(words) ? '' : '.'}`
}
