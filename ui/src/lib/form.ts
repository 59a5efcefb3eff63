import { isObject, parse, pretty, scalar } from './json'

/** A field for one property of a JSON Schema; what is typed into it is a text. */
export type FormField = {
  name: string
  label: string
  about: string
  kind: 'text' | 'number' | 'choice' | 'json'
  isRequired: boolean
  /** The values of a choice, as JSON, with their words. */
  choices: { value: string; words: string }[]
  /** The text of its default. */
  initial: string
}

/** Return the fields of a form; none if its schema does not name the properties of an object. */
export function fieldsOf(schema: unknown): FormField[] {
  if (!isObject(schema) || (schema['type'] ?? 'object') !== 'object') return []
  const properties = Object.entries(isObject(schema['properties']) ? schema['properties'] : {})
  const required = Array.isArray(schema['required']) ? schema['required'].map(String) : []
  const named = new Set(properties.map(([name]) => name))
  const others = [...new Set(required)].filter((name) => !named.has(name)).map((name) => [name, {}] as [string, unknown])
  return [...properties, ...others].map(([name, of]) => fieldOf(name, isObject(of) ? of : {}, required.includes(name)))
}

function fieldOf(name: string, schema: Record<string, unknown>, isRequired: boolean): FormField {
  const choices = choicesOf(schema)
  const kind = choices.length ? 'choice' : (KINDS[scalar(schema['type']) ?? ''] ?? 'json')
  const usual = schema['default']
  const isText = kind === 'text' && typeof usual === 'string'
  const { title, description } = schema
  return {
    name,
    label: typeof title === 'string' && title ? title : name,
    about: [...(typeof description === 'string' ? [description] : []), boundsOf(schema, kind), isRequired ? '' : 'optional'].filter(Boolean).join('; '),
    kind,
    isRequired,
    choices,
    initial: usual === undefined ? '' : isText ? usual : kind === 'json' ? pretty(usual) : JSON.stringify(usual),
  }
}

const KINDS: Record<string, FormField['kind']> = { string: 'text', number: 'number', integer: 'number' }

function choicesOf(schema: Record<string, unknown>): FormField['choices'] {
  if (Array.isArray(schema['enum'])) {
    return schema['enum'].map((each: unknown) => ({ value: JSON.stringify(each), words: scalar(each) || JSON.stringify(each) }))
  }
  if (schema['type'] !== 'boolean') return []
  return [
    { value: 'true', words: 'yes' },
    { value: 'false', words: 'no' },
  ]
}

function boundsOf(schema: Record<string, unknown>, kind: FormField['kind']): string {
  if (kind === 'json') return 'as JSON'
  if (kind !== 'number') return ''
  const [least, most] = [scalar(schema['minimum']), scalar(schema['maximum'])]
  const range = least && most ? `${least} to ${most}` : least ? `at least ${least}` : most ? `at most ${most}` : ''
  return [schema['type'] === 'integer' ? 'a whole number' : 'a number', range].filter(Boolean).join(', ')
}

/**
 * Return the object that the texts of fields stand for, and what is wrong with which of them.
 *
 * An empty field is left out, unless it is a text that is required.
 */
export function filledIn(fields: FormField[], texts: string[]): { value: Record<string, unknown>; errors: string[] } {
  const errors = fields.map(() => '')
  const entries = fields.flatMap((field, index): [string, unknown][] => {
    const text = texts[index] ?? ''
    if (field.kind === 'text') return text || field.isRequired ? [[field.name, text]] : []
    if (!text.trim()) return []
    try {
      const value = parse(text)
      if (field.kind === 'number' && (typeof value === 'string' || !scalar(value))) errors[index] = 'this is not a number'
      return [[field.name, value]]
    } catch {
      errors[index] = field.kind === 'number' ? 'this is not a number' : 'this is not JSON; texts are in quotes'
      return []
    }
  })
  return { value: Object.fromEntries(entries), errors }
}
