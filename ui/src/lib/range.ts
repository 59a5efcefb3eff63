import { preferences } from './preferences.svelte'

/** Instants as the fields for date and time of a form, in the chosen zone. */

/** Return an instant as the value of a field; empty if it is no instant. */
export function fieldOf(at: string): string {
  const ms = Date.parse(at)
  if (Number.isNaN(ms)) return ''
  return new Date(ms - offset(ms)).toISOString().slice(0, 16)
}

/** Return the instant that the value of a field is; empty if it is none. */
export function instantOf(field: string): string {
  const ms = Date.parse(preferences.zone === 'UTC' ? `${field}Z` : field)
  return Number.isNaN(ms) ? '' : new Date(ms).toISOString()
}

function offset(ms: number): number {
  return preferences.zone === 'UTC' ? 0 : new Date(ms).getTimezoneOffset() * 60_000
}
