// Begins jobs, and finds them by id.
import type { Call } from '../endpoint.ts'
import type { Directive } from '../directive.ts'
import { Refusal } from '../refusal.ts'
import type { RefusalDetails } from '../refusal.ts'
import type { Counts } from '../stats.ts'
import { Job } from './job.ts'
import type { ImagePlan, VideoPlan } from './job.ts'

/** Begins a job. It completes by itself after its duration, and is then added to the statistics. */
export function beginJob(
  { state, requestId }: Call,
  prefix: string,
  model: string,
  directive: Directive,
  plan: VideoPlan | ImagePlan,
  counts: Counts
): Job {
  const job = new Job({ id: state.newId(prefix), model, directive, plan })
  state.jobs.keep(job)
  state.after(job.duration, () => {
    if (job.finish()) state.count(counts, requestId)
  })
  if (directive.expire_ms !== undefined) state.after(directive.expire_ms, () => state.jobs.drop(job.id))
  return job
}

/**
 * The job that the path names.
 * @throws Refusal when there is none of this kind
 */
export function jobOf(
  { state, params }: Call,
  kind: Job['plan']['kind'],
  message: string,
  details: RefusalDetails
): Job {
  const job = state.jobs.find(params['id']!)
  if (job?.plan.kind === kind) return job
  throw new Refusal(404, message, details)
}
