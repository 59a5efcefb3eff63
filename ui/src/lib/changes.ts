import { get, Problem, query } from './api'
import type { Author, Job, Page } from './types'

/** A change that a user made, as the node recorded it. */
export type Change = {
  shard: number
  number: number
  at: string
  action: string
  by: Author | null
  job: string
  jobId: string
  executionId: string | null
  before: number | null
  after: number | null
  detail: string
  kind: string | null
  document: string | null
  fields: string[]
  madeAt: string | null
  hash: string
  broken: string
}

/** A version of a job; who made it, and when, is known to those who may read changes. */
export type Version = { number: number; at: string; by: string }

/** The history keeps the newest 20 replaced versions. */
const KEPT = 20

/** Return the versions of a job, newest first, and whether the caller may not see who made them. */
export async function versionsOf(job: Job): Promise<{ versions: Version[]; isAnonymous: boolean }> {
  const numbers = Array.from({ length: Math.min(job.version, KEPT + 1) }, (_, index) => job.version - index)
  try {
    const [replaced, created] = await Promise.all([changes(job, 'job.replaced', KEPT + 1), changes(job, 'job.created', 1)])
    const made = new Map(replaced.concat(created).map((each) => [each.after, each]))
    const versions = numbers.map((number) => {
      const change = made.get(number)
      return { number, at: change?.at ?? '', by: change?.by?.principal ?? '' }
    })
    return { versions, isAnonymous: false }
  } catch (error) {
    if (!(error instanceof Problem) || error.status !== 403) throw error
    return { versions: numbers.map((number) => ({ number, at: '', by: '' })), isAnonymous: true }
  }
}

async function changes(job: Job, action: string, limit: number): Promise<Change[]> {
  return (await get<Page<Change>>(`/changes${query({ object: job.jobId, action, limit })}`)).items
}

export const ACTIONS = [
  ...['job.created', 'job.replaced', 'job.deleted', 'job.paused', 'job.resumed'],
  ...['backfill.started', 'backfill.paused', 'backfill.resumed', 'backfill.cancelled'],
  ...['execution.cancelled', 'execution.rerun', 'task.approved', 'task.rejected'],
  ...['document.created', 'document.replaced', 'document.deleted'],
]

export function keyOf(change: Change): string {
  return `${change.shard}-${change.number}`
}

/** Return the name of what was changed, for people. */
export function objectOf(change: Change): string {
  if (change.kind) return `${change.kind}:${change.document ?? ''}`
  return change.job || change.executionId || '–'
}

/** Return what the filter ``object`` takes for all changes of the same object. */
export function objectFilter(change: Change): string {
  return change.kind ? objectOf(change) : change.jobId
}

/** Return the versions of a definition before and after a change. */
export function versionsIn(change: Change): string {
  if (change.executionId || (change.before === null && change.after === null)) return ''
  if (change.before === change.after) return String(change.after)
  return `${change.before ?? '–'} → ${change.after ?? '–'}`
}
