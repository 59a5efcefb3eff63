import { getExact, query } from './api'
import type { CalendarBody, Page } from './types'

/** A shared document, such as a namespace or a key. */
export type Paper<D = Record<string, unknown>> = {
  name: string
  version: number
  definition: D
  changedAt: string
  changedBy: string
}
export type Namespace = {
  description?: string
  owners?: string[]
  defaults?: object
  policy?: object | null
  quota?: Record<string, number>
  pause?: { at: string; by: string; reason?: string } | null
}
export type Use = { most: number | null; used: number | null }
export type Quota = { jobs: Use; executions: Use; secrets: Use }
export type Key = { principal: string; tokens: { id: string; expiresAt?: string | null }[]; from?: string[] }
export type Role = { verbs: string[] }
export type Binding = { subject: string; role: string; namespaces: string[] }
/** Fields with their defaults are not in it. */
export type Calendar = Partial<CalendarBody>
export type Secret = { namespace: string; name: string; version: number; setAt: string; setBy: string }

const LIMIT = 200

/** Return a page of the shared documents of a kind, by name. */
export function papers<D>(kind: string, cursor: string): Promise<Page<Paper<D>>> {
  return getExact(`/${kind}${query({ limit: LIMIT, cursor })}`)
}
