import { preferences } from './preferences.svelte'

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']
const THIN_SPACE = '\u2009'

const two = (value: number): string => String(value).padStart(2, '0')

export function duration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`
  if (ms < 10_000) return `${(ms / 1_000).toFixed(1)} s`
  const s = Math.round(ms / 1_000)
  if (s < 60) return `${s} s`
  if (s < 3_600) return `${Math.floor(s / 60)}m ${two(s % 60)}s`
  if (s < 86_400) return `${Math.floor(s / 3_600)}h ${two(Math.floor((s % 3_600) / 60))}m`
  return `${Math.floor(s / 86_400)}d ${Math.floor((s % 86_400) / 3_600)}h`
}

/** Return the time that is left, as a clock shows it. */
export function countdown(ms: number): string {
  const s = Math.max(0, Math.round(ms / 1_000))
  if (s < 3_600) return `${Math.floor(s / 60)}:${two(s % 60)}`
  if (s < 86_400) return `${Math.floor(s / 3_600)}:${two(Math.floor((s % 3_600) / 60))}:${two(s % 60)}`
  return `${Math.floor(s / 86_400)}d ${Math.floor((s % 86_400) / 3_600)}h`
}

export function age(ms: number): string {
  const s = Math.max(0, Math.round(ms / 1_000))
  if (s < 60) return `${s}s`
  if (s < 3_600) return `${Math.floor(s / 60)}m`
  if (s < 86_400) return `${Math.floor(s / 3_600)}h`
  return `${Math.floor(s / 86_400)}d`
}

/** Return an instant in the chosen zone; the day is left out if it is the day of *now*. */
export function instant(at: string | number, now: number, precise = true): string {
  const [date, today] = [fields(new Date(at)), fields(new Date(now))]
  const time = `${two(date.hour)}:${two(date.minute)}${precise ? `:${two(date.second)}` : ''}`
  const isToday = date.day === today.day && date.month === today.month && date.year === today.year
  const year = date.year === today.year ? '' : ` ${date.year}`
  return isToday ? time : `${date.day} ${MONTHS[date.month]}${year} ${time}`
}

/** Return an instant as the clocks of a zone show it; nothing if the browser does not know the zone. */
export function zoned(at: string, timeZone: string): string {
  try {
    const format = { timeZone, day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit', second: '2-digit' } as const
    return new Intl.DateTimeFormat('en-GB', { ...format, hourCycle: 'h23' }).format(new Date(at)).replace(',', '')
  } catch {
    return ''
  }
}

export function number(value: number): string {
  return value.toLocaleString('en-US').replaceAll(',', THIN_SPACE)
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${number(count)} ${count === 1 ? one : many}`
}

export function bytes(count: number): string {
  if (count < 1_000) return `${count} B`
  if (count < 1_000_000) return `${(count / 1_000).toFixed(1)} kB`
  return `${(count / 1_000_000).toFixed(1)} MB`
}

export function words(state: string): string {
  return state.replaceAll('_', ' ')
}

/** Return a sentence without its full stop, beginning with a capital. */
export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}

function fields(date: Date) {
  const isUtc = preferences.zone === 'UTC'
  return {
    year: isUtc ? date.getUTCFullYear() : date.getFullYear(),
    month: isUtc ? date.getUTCMonth() : date.getMonth(),
    day: isUtc ? date.getUTCDate() : date.getDate(),
    hour: isUtc ? date.getUTCHours() : date.getHours(),
    minute: isUtc ? date.getUTCMinutes() : date.getMinutes(),
    second: isUtc ? date.getUTCSeconds() : date.getSeconds(),
  }
}
