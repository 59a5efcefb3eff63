import type { Job } from './types'

/** The next fire of one schedule of a job. */
export type Fire = { at: string; job: string; schedule: string; zone: string }

export type Group = { name: string; fires: Fire[] }

const MINUTE_MS = 60_000
const SPANS: [string, number][] = [
  ['Within a minute', MINUTE_MS],
  ['Within an hour', 60 * MINUTE_MS],
  ['Within a day', 24 * 60 * MINUTE_MS],
  ['Within a week', 7 * 24 * 60 * MINUTE_MS],
  ['Later', Infinity],
]

/** Return the next fire of each schedule, earliest first; paused jobs have none. */
export function firesOf(jobs: Job[]): Fire[] {
  const fires: Fire[] = []
  for (const job of jobs) {
    if (job.status === 'paused') continue
    for (const { nextFireAt, schedule, timezone } of job.schedules) {
      if (nextFireAt) fires.push({ at: nextFireAt, job: `${job.namespace}/${job.name}`, schedule, zone: timezone })
    }
  }
  return fires.toSorted((a, b) => Date.parse(a.at) - Date.parse(b.at))
}

/** Return the spans of time in which there are fires, each with its fires. */
export function grouped(fires: Fire[], now: number): Group[] {
  const span = ({ at }: Fire) => SPANS.find(([, most]) => Date.parse(at) - now <= most)?.[0] ?? 'Later'
  return [...Map.groupBy(fires, span)].map(([name, those]) => ({ name, fires: those }))
}
