import { shell } from './command'
import { isObject, parse, scalar } from './json'

/** The definition of a job as a form changes it: all that the form does not know stays as it is. */
export type Definition = Record<string, unknown>

/** One schedule: its place in the definition, and what it says. */
export type ScheduleRow = { pointer: string; text: string; zone: string }

// New fields are put where a person would write them.
const ORDER = ['name', 'namespace', 'description', 'schedule', 'schedules', 'timezone', 'command', 'retries', 'timeout']

/** Return the definition that a text is, or why it is none. */
export function read(text: string): { definition: Definition | null; why: string } {
  try {
    const value = parse(text)
    return isObject(value) ? { definition: value, why: '' } : { definition: null, why: 'it has to be an object' }
  } catch (error) {
    return { definition: null, why: error instanceof Error ? error.message : 'it cannot be read' }
  }
}

/** Return the definition with another value of a field; undefined removes it. */
export function withField(definition: Definition, name: string, value: unknown): Definition {
  const entries = Object.entries(definition)
  const at = entries.findIndex(([key]) => key === name)
  if (at >= 0) entries.splice(at, 1, ...(value === undefined ? [] : [[name, value] as [string, unknown]]))
  else if (value !== undefined) {
    const rank = ORDER.indexOf(name)
    const before = entries.findIndex(([key]) => rank >= 0 && ORDER.indexOf(key) > rank)
    entries.splice(before < 0 ? entries.length : before, 0, [name, value])
  }
  return Object.fromEntries(entries)
}

/** Return what is typed into a field as JSON: a number if it is written like one, nothing if it is empty. */
export function typed(text: string): string | number | undefined {
  if (text.trim() === '') return undefined
  const value = Number(text)
  return Number.isFinite(value) && String(value) === text ? value : text
}

export function schedules(definition: Definition): ScheduleRow[] {
  const { schedule, schedules: list } = definition
  const first = typeof schedule === 'string' ? [{ pointer: '/schedule', text: schedule, zone: '' }] : []
  const others = Array.isArray(list) ? list : []
  return [
    ...first,
    ...others.map((each: unknown, index) => ({
      pointer: `/schedules/${index}`,
      text: scalar(isObject(each) ? each['schedule'] : each) ?? '',
      zone: isObject(each) ? (scalar(each['timezone']) ?? '') : '',
    })),
  ]
}

/** Return the definition with another text of a schedule; null removes it. */
export function withSchedule(definition: Definition, pointer: string, text: string | null): Definition {
  if (pointer === '/schedule') return withField(definition, 'schedule', text ?? undefined)
  const list = [...(Array.isArray(definition['schedules']) ? (definition['schedules'] as unknown[]) : [])]
  const at = Number(pointer.split('/')[2])
  const old = list[at]
  if (text === null) list.splice(at, 1)
  else list[at] = isObject(old) ? { ...old, schedule: text } : text
  return withField(definition, 'schedules', list.length ? list : undefined)
}

export function withAnother(definition: Definition): Definition {
  if (!schedules(definition).length) return withField(definition, 'schedule', '')
  const list = Array.isArray(definition['schedules']) ? (definition['schedules'] as unknown[]) : []
  return withField(definition, 'schedules', [...list, ''])
}

/** Return the words of a line for a shell, which have the same effect. */
export function wordsOf(line: string): string[] {
  if (/^[\w@%+:,./\s-]*$/.test(line)) return line.split(/\s+/).filter(Boolean)
  return ['/bin/sh', '-c', line]
}

export function lineOf(words: string[]): string {
  return words[0] === '/bin/sh' && words[1] === '-c' && words.length === 3 ? (words[2] ?? '') : shell(...words)
}
