import { get, query } from './api'
import { href, jobHref, viewHref } from './route.svelte'
import type { Job, Page } from './types'
import { views } from './views.svelte'

/** A place to which the palette leads. */
export type Place = { kind: 'Jobs' | 'Executions' | 'Views'; text: string; about: string; href: string; state: string }

const MOST = 20
const EXECUTION = /^[0-9a-f]{16}-[0-9a-f]+-[0-9a-f]{4}$/i

/** Return the jobs whose names contain a text; those that begin with it first. */
export async function findJobs(text: string, signal: AbortSignal): Promise<Place[]> {
  const { items } = await get<Page<Job>>(`/jobs${query({ q: text, limit: MOST })}`, signal)
  const begins = (job: Job) => job.name.startsWith(text) || `${job.namespace}/${job.name}`.startsWith(text)
  return items
    .toSorted((a, b) => Number(begins(b)) - Number(begins(a)))
    .map((job) => {
      const text = `${job.namespace}/${job.name}`
      return { kind: 'Jobs', text, about: job.status, href: jobHref(text), state: job.status }
    })
}

/** Return the execution that a text is the id of, and the views with it in their names. */
export function findHere(text: string): Place[] {
  const found: Place[] = []
  if (EXECUTION.test(text)) {
    found.push({ kind: 'Executions', text, about: '', href: href(['executions', text]), state: 'queued' })
  }
  for (const { name, path, keys = '' } of views.all) {
    if (!name.toLowerCase().includes(text.toLowerCase())) continue
    found.push({ kind: 'Views', text: name, about: keys, href: viewHref(path), state: '' })
  }
  return found
}
