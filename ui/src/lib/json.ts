/** JSON that keeps the digits of numbers which JavaScript would round or write in another way. */

type Context = { source?: string }
type Exact = {
  parse(text: string, revive: (key: string, value: unknown, context?: Context) => unknown): unknown
  /** Missing in browsers before 2025, where such numbers are rounded. */
  rawJSON?: (text: string) => object
  isRawJSON?: (value: unknown) => value is { rawJSON: string }
}

const EXACT = JSON as unknown as Exact

export function parse(text: string): unknown {
  return EXACT.parse(text, (_, value, context) => {
    const isExact = typeof value !== 'number' || context?.source === undefined || context.source === String(value)
    return isExact || !EXACT.rawJSON ? value : EXACT.rawJSON(context.source ?? '')
  })
}

/** Return what is typed into a field for JSON, undefined if it is empty; null if it is no JSON. */
export function given(text: string): { value: unknown } | null {
  try {
    return { value: text.trim() ? parse(text) : undefined }
  } catch {
    return null
  }
}

export function pretty(value: unknown): string {
  return JSON.stringify(value, null, 2)
}

/** Return a text or a number as the text of a field; null if it is something else. */
export function scalar(value: unknown): string | null {
  if (value === undefined || value === null) return ''
  if (typeof value === 'string' || typeof value === 'number') return String(value)
  return EXACT.isRawJSON?.(value) ? value.rawJSON : null
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && scalar(value) === null
}
