/** Output of tasks as text: colours of terminals become classes, other controls become visible. */

export type Span = { text: string; style: string }

export const LINE_MAX = 2_000

const ESCAPE = /\u001b\[([0-9;]*)m/g
// Controls, and the marks that change the direction of text or have no width.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g

/** Return a line in pieces of one style; what is beyond LINE_MAX characters is left out. */
export function spans(line: string): Span[] {
  const shown = line.length > LINE_MAX ? line.slice(0, LINE_MAX) : line
  const found: Span[] = []
  let [begin, style] = [0, '']
  for (const match of shown.matchAll(ESCAPE)) {
    add(found, shown.slice(begin, match.index), style)
    style = nextStyle(style, match[1] ?? '')
    begin = match.index + match[0].length
  }
  add(found, shown.slice(begin), style)
  if (line.length > LINE_MAX) {
    found.push({ text: ` … ${line.length - LINE_MAX} more characters`, style: 'hidden' })
  }
  return found
}

/** Return a line as plain text, for a search. */
export function plain(line: string): string {
  return line.replaceAll(ESCAPE, '')
}

function add(found: Span[], text: string, style: string): void {
  let begin = 0
  for (const match of text.matchAll(HIDDEN)) {
    if (match.index > begin) found.push({ text: text.slice(begin, match.index), style })
    found.push({ text: escaped(match[0]), style: 'hidden' })
    begin = match.index + match[0].length
  }
  if (begin < text.length) found.push({ text: text.slice(begin), style })
}

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
}

function nextStyle(style: string, codes: string): string {
  let next = style
  for (const code of (codes || '0').split(';').map(Number)) {
    const isBold = next.includes('bold')
    const colour = code >= 90 ? code - 60 : code
    if (code === 0) next = ''
    else if (code === 1) next = `${next} bold`.trim()
    else if (code === 39) next = isBold ? 'bold' : ''
    else if (colour >= 30 && colour <= 37) next = `a${colour - 30}${isBold ? ' bold' : ''}`
  }
  return next
}
