import type { Attempt, Execution, Task } from './types'

/** A row of the canvas: a task with its attempts. */
export type Row = { name: string; task: Task; needs: string[]; y: number }

export const ROW_PX = 34

/** Return the tasks in an order in which each follows those that it needs. */
export function rows(tasks: Record<string, Task>, needs: Map<string, string[]>): Row[] {
  const ordered: string[] = []
  const seen = new Set<string>()
  for (const begin of Object.keys(tasks)) {
    // Without recursion: a chain may have thousands of tasks.
    const stack = [begin]
    while (stack.length) {
      const name = stack.at(-1) ?? ''
      const open = (needs.get(name) ?? []).filter((each) => each in tasks && !seen.has(each))
      if (seen.has(name) || !open.length || stack.length > Object.keys(tasks).length) {
        stack.pop()
        if (!seen.has(name)) ordered.push(name)
        seen.add(name)
      } else stack.push(...open)
    }
  }
  return ordered.flatMap((name, index) => {
    const task = tasks[name]
    return task ? [{ name, task, needs: needs.get(name) ?? [], y: index * ROW_PX }] : []
  })
}

export type Span = { begin: number; end: number }

/** Return the time that the canvas shows, which is never empty. */
export function extent(execution: Execution, now: number): Span {
  let begin = Date.parse(execution.startedAt ?? execution.queuedAt)
  let end = now
  // Without spread arguments: loops may have more attempts than a call may have arguments.
  for (const task of Object.values(execution.tasks ?? {})) {
    for (const each of task.attempts) {
      begin = Math.min(begin, Date.parse(each.startedAt))
      end = Math.max(end, attemptEnd(each, now))
    }
  }
  end = Math.max(end, begin + 10)
  return { begin, end: end + (end - begin) * 0.04 }
}

export function attemptEnd(attempt: Attempt, now: number): number {
  return attempt.finishedAt ? Date.parse(attempt.finishedAt) : Math.max(now, Date.parse(attempt.startedAt))
}

/** Return instants at round distances from the beginning, at most *count* of them. */
export function ticks(span: Span, count: number): number[] {
  const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 15e3, 3e4, 6e4, 3e5, 9e5, 18e5, 36e5, 216e5, 864e5]
  const step = STEPS.find((each) => (span.end - span.begin) / each <= count) ?? 864e5
  const found: number[] = []
  for (let at = span.begin; at <= span.end; at += step) found.push(at)
  return found.slice(0, 100)
}
