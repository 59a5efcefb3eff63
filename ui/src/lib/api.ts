import { connection } from './connection.svelte'
import { session } from './session.svelte'
import { parse } from './json'
import type { FieldProblem, ProblemDocument } from './types'

const TIMEOUT_MS = 30_000
export const ROOT = '/api/v1'

/** A failure that a node or the network reports. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
    readonly requestId = '',
    /** What is wrong with which field of the body. */
    readonly errors: FieldProblem[] = [],
  ) {
    super(detail)
  }
}

export function problemOf(error: unknown): Problem {
  if (error instanceof Problem) return error
  return new Problem(0, 'unreachable', 'the node does not answer')
}

/** Return the response to a request; raise a Problem if it is a failure. */
export async function request(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = { ...session.headers(), ...(init.headers as Record<string, string> | undefined) }
  const late = connection.expectAnswer()
  let response: Response
  try {
    response = await fetch(ROOT + path, { cache: 'no-store', ...init, headers })
  } catch (error) {
    if (!init.signal?.aborted) connection.lost()
    throw error
  } finally {
    clearTimeout(late)
  }
  connection.answered(response.headers.get('Rota-Node') ?? '')
  if (response.ok) return response
  if (response.status === 401) session.isRefused = true
  throw await failure(response)
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  const limit = AbortSignal.timeout(TIMEOUT_MS)
  const response = await request(path, { signal: signal ? AbortSignal.any([signal, limit]) : limit })
  return (await response.json()) as T
}

/** Return a document whose numbers keep all of their digits; see `parse`. */
export async function getExact<T>(path: string): Promise<T> {
  return parse(await (await request(path, { signal: AbortSignal.timeout(TIMEOUT_MS) })).text()) as T
}

/** Send a text of JSON as it is. */
export async function send<T>(
  method: 'POST' | 'PUT',
  path: string,
  text: string,
  headers: Record<string, string>,
  signal?: AbortSignal,
): Promise<T> {
  const limit = AbortSignal.timeout(TIMEOUT_MS)
  const response = await request(path, {
    method,
    body: text,
    headers: { 'Content-Type': 'application/json', ...headers },
    signal: signal ? AbortSignal.any([signal, limit]) : limit,
  })
  return (await response.json()) as T
}

export async function post<T>(path: string, body?: unknown): Promise<T> {
  const headers: Record<string, string> = { 'Idempotency-Key': newId() }
  const init: RequestInit = { method: 'POST', headers, signal: AbortSignal.timeout(TIMEOUT_MS) }
  if (path.includes('/cancel')) delete headers['Idempotency-Key'] // A cancellation is final.
  if (body !== undefined) {
    headers['Content-Type'] = 'application/json'
    init.body = JSON.stringify(body)
  }
  return (await (await request(path, init)).json()) as T
}

/** Delete what a path names. */
export async function remove(path: string, headers: Record<string, string> = {}): Promise<void> {
  await request(path, { method: 'DELETE', headers, signal: AbortSignal.timeout(TIMEOUT_MS) })
}

export function query(parameters: Record<string, string | number | null | undefined>): string {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== '')
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString()
  return text && `?${text}`
}

async function failure(response: Response): Promise<Problem> {
  try {
    const document = (await response.json()) as ProblemDocument
    return new Problem(document.status, document.code, document.detail, document.requestId, document.errors ?? [])
  } catch {
    return new Problem(response.status, 'unreadable', `the answer has status ${response.status}`)
  }
}

/** Return 128 random bits; randomUUID exists only where the address is secure. */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}
