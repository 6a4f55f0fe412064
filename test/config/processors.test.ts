// How many workers `auto` is: what Node says, and quotas of CPU time that it does not find.
import { mkdirSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { dirname, join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { processors } from '../../config/sections/processors.ts'

const all = availableParallelism()

/** The processors where the system has these files. */
function seen(t: Test, files: Readonly<Record<string, string>>): number {
  const root = t.testdir()
  for (const [name, text] of Object.entries(files)) {
    const path = join(root, name)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, text)
  }
  return processors(root)
}

/** The files of a quota, of a period of 100 ms. */
function quota(folder: string, of: number): Record<string, string> {
  const group = `sys/fs/cgroup/${folder}`
  return { [`${group}/cpu.cfs_quota_us`]: `${of}\n`, [`${group}/cpu.cfs_period_us`]: '100000\n' }
}

t.test('without a quota it is what Node says, on a system without cgroups too', async (t) => {
  t.equal(processors(t.testdir()), all)
  t.equal(seen(t, { 'proc/self/cgroup': '1:cpu:/own\n', ...quota('cpu/own', -1) }), all)
  t.equal(seen(t, { 'proc/self/cgroup': '0::/own\n' }), all)
})

t.test('a quota counts by the processors that it is worth, rounded down, and is never less than one', async (t) => {
  const lines = '2:memory:/own\n1:cpu:/own\n0::/own\n'
  t.equal(seen(t, { 'proc/self/cgroup': lines, ...quota('cpu/own', 100_000) }), 1)
  t.equal(seen(t, { 'proc/self/cgroup': lines, ...quota('cpu/own', 199_000) }), 1)
  t.equal(seen(t, { 'proc/self/cgroup': lines, ...quota('cpu/own', 20_000) }), 1)
  t.equal(seen(t, { 'proc/self/cgroup': lines, ...quota('cpu/own', (all + 1) * 100_000) }), all)
})

t.test('the quota of a group around counts, and that of a container, which has its own at the top', async (t) => {
  const around = { 'proc/self/cgroup': '4:cpu,cpuacct:/slice/own\n', ...quota('cpu,cpuacct/slice', 100_000) }
  t.equal(seen(t, { ...around, ...quota('cpu,cpuacct/slice/own', -1) }), 1)
  t.equal(seen(t, { 'proc/self/cgroup': '4:cpu,cpuacct:/docker/1f\n', ...quota('cpu,cpuacct', 100_000) }), 1)
})
