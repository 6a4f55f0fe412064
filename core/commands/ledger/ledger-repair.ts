// The command `sluice ledger repair`: shows what is wrong with a store that does not start, and mends it on request.
import { formatDollars } from '../../money/money.ts'
import { Ownership } from '../../store/embedded/files/lock.ts'
import { planRepair, repair, repairSpend, repairTraffic } from '../../store/embedded/care/repair.ts'
import type { RepairPlan } from '../../store/embedded/care/repair.ts'
import type { Loss } from '../../store/embedded/care/salvage/mending.ts'
import type { Share } from '../../store/embedded/care/share.ts'
import { defineCommand, exits, jsonOption, UsageError } from '../command/command.ts'
import { Progress } from '../output/progress.ts'
import { print, storeFile, storeOptions } from '../command/store-option.ts'

export const repairLedger = defineCommand({
  name: 'ledger repair',
  summary: 'shows what is damaged in a store that does not start, and mends it',
  options: {
    apply: { text: 'mends it; without this nothing is changed' },
    'accept-loss': { text: 'with --apply: mends a journal of which something is lost, which is said before' },
    spend: { text: 'only adds spend up anew from the journal, where verify finds it wrong (I19)' },
    traffic: {
      text: 'only adds figures over time up anew from the request records, where verify finds them wrong (I20)'
    },
    ...storeOptions,
    ...jsonOption
  },
  notes: `
For a store whose files are damaged, missing or older than others of them, while no gateway runs. Every whole batch of the commit
log that the database lacks is applied, also behind a gap; requests whose end is lost are ended by estimate at the next start. Files
with what cannot be saved are put aside in a folder FILE.damaged-TIME, and nothing is removed. After a database was brought back
from a backup, the log of what came after it is put aside.
Of a journal that is the store itself, every whole batch is saved too, whatever is lost between; keys, settings and prices that were
changed in lost batches are brought back where the database or a checkpoint has them. What is lost is said: from when to when, how
many entries, and which balances lack how much. Then --apply alone changes nothing: --accept-loss says that you know it.
Exits with 0 when nothing is wrong or it was mended, and with 3 when there is something to mend.`,
  async run({ apply, 'accept-loss': accepted, spend, traffic, json, ...given }) {
    const sums = spend ? ('spend' as const) : traffic ? ('traffic' as const) : undefined
    if (accepted && !apply) throw new UsageError('--accept-loss goes with --apply')
    if (sums && (apply || json || (spend && traffic)))
      throw new UsageError(`--${sums} stands alone: leave --apply, --json and other sums out`)
    const owner = Ownership.take(
      await storeFile(given, 'mends a store', 'PostgreSQL keeps its files whole; restore a backup where it cannot'),
      { damaged: true }
    )
    try {
      if (sums) return await addUp(owner.file, sums)
      const [plan, folder] = await Progress.of('looking for damage', (tell) => {
        const plan = planRepair(owner.file, tell)
        const mends = plan && apply && (accepted || !losing(plan))
        return [plan, mends ? repair(owner.file, plan, Date.now(), tell) : null] as const
      })
      if (json) print(JSON.stringify(shown(owner.file, plan, folder)))
      else
        for (const line of plan ? describe(owner.file, plan, folder) : [`${owner.file}: nothing is damaged`])
          print(line)
      return plan && folder === null ? exits.found : exits.ok
    } finally {
      owner.release()
    }
  }
})

async function addUp(file: string, sums: 'spend' | 'traffic'): Promise<number> {
  await Progress.of('looking for damage', (tell) => {
    if (planRepair(file, tell)) throw new Error(`${file} is damaged: mend it first, without --${sums}`)
    if (sums === 'spend') repairSpend(file, tell)
    else repairTraffic(file, tell)
  })
  print(`${file}: ${sums} was added up anew from the ${sums === 'spend' ? 'journal' : 'request records'}`)
  return exits.ok
}

function describe(file: string, plan: RepairPlan, folder: string | null): string[] {
  const { damage, base, saved, lost, loss, endKnown, foreign, aside } = plan
  const batches = lost.reduce((sum, [first, last]) => sum + last - first + 1, 0)
  const ranges = lost.map(([first, last]) => (first === last ? String(first) : `${first} to ${last}`)).join(', ')
  return [
    ...damage.map((one) => `${one.file} ${one.text}`),
    '',
    base === 'whole'
      ? `kept      the database ${file}`
      : base === 'mended'
        ? `mended    the journal, with a database that is made of it`
        : base === 'anew'
          ? `made anew the database ${file}, from the journal, which has all of it`
          : base === 'new'
            ? 'lost      all that only the database had: a new one is begun'
            : 'lost      what only the write-ahead log had: the database is kept without it',
    `${folder === null ? 'saves ' : 'saved '}    ${text(saved)} of the ${base === 'anew' || base === 'mended' ? 'journal' : 'commit log'}`,
    ...(loss && loss.gaps.length > 0 ? told(loss) : []),
    base === 'anew' || (base === 'mended' && batches === 0)
      ? 'lost      nothing'
      : batches === 0
        ? endKnown
          ? 'lost      no batch that the commit log is known to have had'
          : 'unknown   what was charged last: the commit log, which would say how far it went, is gone'
        : `lost      ${batches === 1 ? '1 batch' : `${batches} batches`} (${ranges}): what was charged in ${batches === 1 ? 'it' : 'them'} is not known`,
    ...(foreign.batches === 0
      ? []
      : [`not taken ${text(foreign)} of another history than the database's, which went on without it`]),
    ...aside.map((path) => `${folder === null ? 'puts aside' : 'put aside'} ${path}`),
    '',
    folder === null
      ? `Nothing was changed: --apply${losing(plan) ? ' --accept-loss' : ''} does it.`
      : `What was put aside is in ${folder}. The store can start; \`sluice ledger verify\` checks the book.`
  ]
}

/** Whether it is to be said that what is lost is known. */
function losing({ loss }: RepairPlan): boolean {
  return loss !== undefined && loss.gaps.length > 0
}

function told({ gaps, entries, balances }: Loss): string[] {
  const at = (time: number): string => (time === 0 ? 'the beginning' : new Date(time).toISOString())
  return [
    ...gaps.map(
      ({ first, last, since, until }) =>
        `lost      what was written from ${at(since)} to ${until === undefined ? 'the end' : at(until)}: ${first === last ? `batch ${first}` : `batches ${first} to ${last}`}`
    ),
    entries === undefined
      ? 'unknown   how many requests ended in between: no checkpoint and no database goes further'
      : `lost      ${entries === 1 ? '1 entry' : `${entries} entries`} of the journal: ends of requests, and costs of upstreams`,
    ...(balances === undefined
      ? ['unsure    every balance: nothing says what was charged in between']
      : balances.map(({ scope, window, amount }) => `lacks     ${scope} ${window}: $${formatDollars(amount)}`))
  ]
}

function text({ batches, charges, amount }: Share): string {
  return `${batches === 1 ? '1 batch' : `${batches} batches`} with ${charges === 1 ? '1 charge' : `${charges} charges`} of $${formatDollars(amount)}`
}

function shown(file: string, plan: RepairPlan | undefined, folder: string | null): unknown {
  if (!plan) return { file, damage: [] }
  const share = ({ batches, charges, amount }: Share): unknown => ({
    batches,
    charges,
    amount_usd: formatDollars(amount),
    amount_nano: String(amount)
  })
  const { damage, base, saved, lost, loss, endKnown, foreign, aside } = plan
  return {
    file,
    damage: damage.map((one) => ({ file: one.file, text: one.text })),
    base,
    saved: share(saved),
    lost,
    ...(loss && {
      loss: {
        gaps: loss.gaps.map(({ since, until, ...gap }) => ({
          ...gap,
          since: new Date(since).toISOString(),
          until: until === undefined ? null : new Date(until).toISOString()
        })),
        entries: loss.entries ?? null,
        balances: loss.balances?.map(({ amount, ...of }) => ({ ...of, amount_nano: String(amount) })) ?? null
      }
    }),
    end_known: endKnown,
    foreign: share(foreign),
    aside,
    folder
  }
}
