/** The difference of two texts, line by line. */

export type Line = { kind: 'same' | 'gone' | 'new'; text: string }
export type Piece = Line | { kind: 'fold'; count: number }

/** Texts that differ in more lines are shown as replaced as a whole: the table below grows with the square. */
const MOST = 2_000
const CONTEXT = 3

export function diff(before: string, after: string): Line[] {
  const [a, b] = [before.split('\n'), after.split('\n')]
  let [begin, end] = [0, 0]
  while (begin < a.length && begin < b.length && a[begin] === b[begin]) begin++
  while (end < a.length - begin && end < b.length - begin && a.at(-1 - end) === b.at(-1 - end)) end++
  const as = (kind: Line['kind'], lines: string[]) => lines.map((text) => ({ kind, text }))
  return [
    ...as('same', a.slice(0, begin)),
    ...middle(a.slice(begin, a.length - end), b.slice(begin, b.length - end)),
    ...as('same', end ? a.slice(-end) : []),
  ]
}

/** Return the lines with those left out that are far from a change. */
export function folded(lines: Line[]): Piece[] {
  const near = new Set<number>()
  for (const [index, { kind }] of lines.entries()) {
    if (kind === 'same') continue
    for (let at = index - CONTEXT; at <= index + CONTEXT; at++) near.add(at)
  }
  // A single line takes no more room than the words in its place.
  for (const index of lines.keys()) if (near.has(index - 1) && near.has(index + 1)) near.add(index)
  if (near.has(1)) near.add(0)
  const found: Piece[] = []
  for (const [index, line] of lines.entries()) {
    const last = found.at(-1)
    if (near.has(index)) found.push(line)
    else if (last?.kind === 'fold') last.count++
    else found.push({ kind: 'fold', count: 1 })
  }
  return found
}

function middle(a: string[], b: string[]): Line[] {
  if (a.length > MOST || b.length > MOST) return whole(a, b)
  const width = b.length + 1
  // The length of the longest common subsequence of the rest of both, from each place on.
  const rest = new Uint16Array((a.length + 1) * width)
  const at = (i: number, j: number) => rest[i * width + j] ?? 0
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      rest[i * width + j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1))
    }
  }
  const found: Line[] = []
  let [i, j] = [0, 0]
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) {
      found.push({ kind: 'same', text: a[i] ?? '' })
      i++
      j++
    } else if (at(i + 1, j) >= at(i, j + 1)) found.push({ kind: 'gone', text: a[i++] ?? '' })
    else found.push({ kind: 'new', text: b[j++] ?? '' })
  }
  return [...found, ...whole(a.slice(i), b.slice(j))]
}

function whole(a: string[], b: string[]): Line[] {
  return [
    ...a.map((text) => ({ kind: 'gone' as const, text })),
    ...b.map((text) => ({ kind: 'new' as const, text })),
  ]
}
