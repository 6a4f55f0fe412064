// How many processors this process may use.
import { readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'

/**
 * The processors that this process may use, at least 1. Where a quota of CPU time holds, it is as many as the quota is
 * worth, rounded down. Node knows the quotas of cgroups of version 2; those of version 1 it does not find in a
 * container, nor where `cpu` has a hierarchy of its own.
 *
 * @param root the folder that `proc` and `sys` are in
 */
export function processors(root = '/'): number {
  return Math.max(1, Math.floor(Math.min(availableParallelism(), quotaOf(root))))
}

/** The quota in processors, the least one of this process's group and of those around it; Infinity without one. */
function quotaOf(root: string): number {
  const group = read(join(root, 'proc/self/cgroup'))
    .split('\n')
    .map((line) => /^\d+:(?<controllers>[^:]*):(?<path>.*)$/.exec(line)?.groups)
    .find((found) => found?.['controllers']!.split(',').includes('cpu'))
  if (!group) return Infinity
  // In a container the hierarchy begins at its own group, and the path is that of the machine: only `/` is there.
  const names = group['path']!.split('/').filter((name) => name !== '')
  const quotas = Array.from({ length: names.length + 1 }, (_, depth) => {
    const folder = join(root, 'sys/fs/cgroup', group['controllers']!, ...names.slice(0, depth))
    const [quota, period] = ['cpu.cfs_quota_us', 'cpu.cfs_period_us'].map((name) => Number(read(join(folder, name))))
    return quota! > 0 && period! > 0 ? quota! / period! : Infinity
  })
  return Math.min(...quotas)
}

/** The text of a file; empty where there is none. */
function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
