/** Places in a text of JSON. */

type Frame = { pointer: string; isList: boolean; index: number; key: string; hasKey: boolean }

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:\n]|[^\s{}[\],:"]+/g

/** Return the line, from 1, of each value of a text by its JSON pointer. */
export function lines(text: string): Map<string, number> {
  const found = new Map([['', 1]])
  const stack: Frame[] = []
  let line = 1
  for (const [token] of text.matchAll(TOKEN)) {
    const top = stack.at(-1)
    if (token === '\n') line++
    else if (token === '}' || token === ']') stack.pop()
    else if (token === ':') {
      if (top) top.hasKey = true
    } else if (token === ',') {
      if (top) [top.index, top.hasKey] = [top.index + 1, false]
    } else if (top && !top.isList && !top.hasKey && token.startsWith('"')) {
      top.key = unquoted(token)
      found.set(placeIn(top), line)
    } else {
      const pointer = top ? placeIn(top) : ''
      found.set(pointer, found.get(pointer) ?? line)
      if (token === '{' || token === '[') stack.push({ pointer, isList: token === '[', index: 0, key: '', hasKey: false })
    }
  }
  return found
}

/** Return the line of a value, or of the nearest one around it if it is missing. */
export function lineAt(places: Map<string, number>, pointer: string): number {
  for (let at = pointer; at; at = at.slice(0, at.lastIndexOf('/'))) {
    const line = places.get(at)
    if (line !== undefined) return line
  }
  return 1
}

function placeIn(frame: Frame): string {
  const key = frame.isList ? String(frame.index) : frame.key.replaceAll('~', '~0').replaceAll('/', '~1')
  return `${frame.pointer}/${key}`
}

function unquoted(token: string): string {
  try {
    return JSON.parse(token) as string
  } catch {
    return token
  }
}
