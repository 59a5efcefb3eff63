import { attemptEnd } from './layout'
import { plural, words } from './text'
import type { Attempt, Execution, Steps, Task, TaskSpec } from './types'

/** Return the name of the loop of a step, such as `load` for `load[3]` and `poll#2`; else *name*. */
export function loopOf(name: string): string {
  return name.replace(/[[#].*$/, '')
}

/** Return the tasks that are no steps of loops. */
export function withoutSteps(tasks: Record<string, Task>): Record<string, Task> {
  return Object.fromEntries(Object.entries(tasks).filter(([name]) => loopOf(name) === name))
}

/** Return the steps of each loop, with their names. */
export function stepsByLoop(tasks: Record<string, Task>): Map<string, [string, Task][]> {
  const found = new Map<string, [string, Task][]>()
  for (const [name, task] of Object.entries(tasks)) {
    const loop = loopOf(name)
    if (loop === name) continue
    const steps = found.get(loop)
    if (steps) steps.push([name, task])
    else found.set(loop, [[name, task]])
  }
  return found
}

/** Return the step that is shown first: one that runs or failed, else the last that ran. */
export function interesting(all: [string, Task][]): string {
  const ran = all.filter(([, each]) => each.attempts.length)
  const first = ran.find(([, each]) => each.status === 'running') ?? ran.find(([, each]) => each.status === 'failed')
  return (first ?? ran.at(-1) ?? all[0])?.[0] ?? ''
}

/** Return what a task is: its loop, its wait, `command`, or the type of its work. */
export function kindOf(spec: TaskSpec): string {
  const kind = (['foreach', 'repeat', 'sleep', 'approval', 'waitForEvent', 'switch', 'runJob'] as const).find((each) => spec[each] !== null)
  if (kind === 'runJob') return 'job'
  if (kind === 'waitForEvent') return 'event'
  return kind ?? (['process', 'user'].includes(spec.type) ? 'command' : spec.type)
}

/** Return the work of a task, or what its loop or its wait is about. */
export function workOf(spec: TaskSpec, shell: (...words: string[]) => string): string {
  const { foreach, repeat, sleep, approval } = spec
  if (sleep !== null) return typeof sleep === 'string' ? sleep : `until ${sleep.until}`
  if (approval !== null) return approval.message
  if (spec.waitForEvent !== null) return spec.waitForEvent.event
  if (spec.runJob !== null) return spec.runJob.job
  if (spec.switch !== null) return spec.switch.map((each) => `${each.to.join(', ')} ${each.when && `when ${each.when}`}`).join('; ')
  const command = Array.isArray(spec.command) ? shell(...spec.command) : spec.command
  const work = command ?? spec.python ?? spec.container ?? ''
  if (repeat !== null) return `until ${repeat.until}: ${work}`
  if (foreach === null) return work
  const { items, matrix } = foreach
  if (matrix) return `of each ${Object.keys(matrix).join(' and ')}: ${work}`
  return `of ${Array.isArray(items) ? plural(items.length, 'item') : items}: ${work}`
}

/** Return the event that a task waits for: its name is a template in the definition, and rendered in the reason. */
export function eventOf(task: Task, spec: TaskSpec | undefined): string {
  if (task.status !== 'waiting' || task.steps || !spec?.waitForEvent) return ''
  return /^waits for the event: (\S+)$/.exec(task.reason)?.[1] ?? ''
}

/** Return the rule and the condition of a task; empty if it has neither. */
export function conditionOf(spec: TaskSpec | undefined): string {
  if (!spec) return ''
  const rule = spec.triggerRule === 'all_success' ? '' : words(spec.triggerRule)
  return [spec.teardown && 'teardown', rule, spec.when && `when ${spec.when}`].filter(Boolean).join('; ')
}

/** Return the counts of the steps of a loop. */
export function stepsText(steps: Steps, isRepeat: boolean): string {
  const ended = steps.begun - steps.open
  const done = isRepeat ? `${plural(ended, 'round')} done, at most ${steps.total}` : `${ended} of ${steps.total} done`
  const counts = (['failed', 'skipped', 'open'] as const).filter((each) => steps[each])
  return [done, ...counts.map((each) => `${steps[each]} ${each}`)].join(', ')
}

/** Return the part of a loop that succeeded, failed and was skipped, each from 0 to 1. */
export function stepShares(steps: Steps, isEndedRepeat: boolean): [string, number][] {
  // The total of a repetition is only the most rounds: one that has ended is complete.
  const total = Math.max(1, isEndedRepeat ? steps.begun : steps.total)
  const succeeded = steps.begun - steps.open - steps.failed - steps.skipped
  return [
    ['f-ok', succeeded / total],
    ['f-fail', steps.failed / total],
    ['f-idle', steps.skipped / total],
  ]
}

export type Times = { begin: number; end: number }

/**
 * Return when each task began and ended, of those that did; now is the end of those that run.
 *
 * A wait has no attempts: it begins when the last task that it needs has ended. When it ended is
 * not recorded, so one that has ended is a point. *names* are in order, needs first.
 */
export function timesOf(
  execution: Execution,
  names: string[],
  specs: Map<string, TaskSpec>,
  steps: Map<string, [string, Task][]>,
  now: number,
): Map<string, Times> {
  const found = new Map<string, Times>()
  for (const name of names) {
    const task = execution.tasks?.[name]
    if (!task) continue
    const attempts = task.steps ? (steps.get(name) ?? []).flatMap(([, each]) => each.attempts) : task.attempts
    const spec = specs.get(name)
    const isWait = !task.steps && (spec?.sleep || spec?.approval || spec?.waitForEvent) && ['waiting', 'success', 'failed'].includes(task.status)
    if (attempts.length) {
      const { begin, end } = around(attempts, now)
      found.set(name, { begin, end: task.status === 'waiting' ? Math.max(end, now) : end })
    } else if (isWait) {
      let begin = Date.parse(execution.startedAt ?? execution.queuedAt)
      for (const needed of spec?.needs ?? []) begin = Math.max(begin, found.get(needed)?.end ?? begin)
      found.set(name, { begin, end: task.status === 'waiting' ? Math.max(begin, now) : begin })
    }
  }
  return found
}

function around(attempts: Attempt[], now: number): Times {
  let [begin, end] = [Infinity, -Infinity]
  for (const each of attempts) {
    begin = Math.min(begin, Date.parse(each.startedAt))
    end = Math.max(end, attemptEnd(each, now))
  }
  return { begin, end }
}
