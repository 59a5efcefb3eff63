import { get, query } from './api'
import type { Execution, Page } from './types'

export const HOUR_MS = 3_600_000
const MINUTE_MS = 60_000
const PAGE = 1_000

/** One minute of the last hour. */
export type Minute = { at: number; success: number; failed: number; other: number; worstMs: number }

/** The executions of the last hour; after the first read, the newest alone are read again. */
export class LastHour {
  private known = new Map<string, Execution>()
  private isRead = false
  isCut = false

  async read(): Promise<Execution[]> {
    const now = Date.now()
    const from = new Date(this.isRead ? this.oldestUnfinished(now) : now - HOUR_MS).toISOString()
    const page = await get<Page<Execution>>(`/executions${query({ from, limit: PAGE })}`)
    this.isCut = this.isCut || page.nextCursor !== null
    this.isRead = true
    for (const each of page.items) this.known.set(each.executionId, each)
    for (const [id, each] of this.known) {
      if (Date.parse(each.fireTime) < now - HOUR_MS) this.known.delete(id)
    }
    return [...this.known.values()]
  }

  private oldestUnfinished(now: number): number {
    const open = [...this.known.values()].filter((each) => each.finishedAt === null)
    return Math.min(now - MINUTE_MS, ...open.map((each) => Date.parse(each.fireTime)))
  }
}

/** Return the last 60 minutes, oldest first. */
export function minutes(executions: Execution[], now: number): Minute[] {
  const last = Math.floor(now / MINUTE_MS) * MINUTE_MS
  const found = Array.from({ length: 60 }, (_, index) => ({
    at: last - (59 - index) * MINUTE_MS,
    success: 0,
    failed: 0,
    other: 0,
    worstMs: 0,
  }))
  for (const each of executions) {
    const minute = found[59 - Math.floor((last + MINUTE_MS - 1 - Date.parse(each.fireTime)) / MINUTE_MS)]
    if (!minute) continue
    if (each.status === 'success') minute.success++
    else if (each.status === 'failed') minute.failed++
    else minute.other++
    minute.worstMs = Math.max(minute.worstMs, each.trigger === 'schedule' ? (each.latenessMs ?? 0) : 0)
  }
  return found
}

/** Return the value that a *share* of the values does not exceed; 0 without values. */
export function quantile(values: number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0
}
