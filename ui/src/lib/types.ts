/** The documents of the API that the page reads. Written by `make docs`: do not edit. */

export type Page<T> = { items: T[]; nextCursor: string | null }

export type ApprovalBody = {
  message: string
  form: Record<string, unknown> | null
  timeout: number | number | string
  onReject: "fail" | "skip"
  by: string[]
}

export type Attempt = {
  number: number
  nodeId: string
  token: string
  startedAt: string
  finishedAt: string | null
  outcome: string | null
  exitCode: number | null
  signal: number | null
  reason: string
  outputTail: string
  outputBytes: number
  progress: number | null
  result: unknown
  error: ErrorDocument | null
  cpuSeconds: number | null
  memoryPeakBytes: number | null
  outOfMemory: boolean
  unenforced: string[]
  leftRunning: string
}

export type Author = {
  principal: string
  key: string | null
  requestId: string
  address: string | null
}

export type Backfill = {
  backfillId: string
  jobId: string
  status: string
  since: string
  until: string
  reprocess: string
  order: string
  parallel: number
  total: number
  begun: number
  running: number
  succeeded: number
  failed: number
  createdAt: string
  finishedAt: string | null
  startedBy: Author | null
  nextTimes: string[]
  warnings: string[]
}

export type CalendarBody = {
  description: string
  source: string
  names: Record<string, string>
  dates: string[]
  weekdays: string[]
  monthDays: number[]
  windows: WindowBody[]
  includes: string[]
  excludes: string[]
  timezone: string
  blackoutOf: string[]
  nth: number[]
}

export type CaseBody = {
  when: string
  to: string[]
}

export type Cause = {
  code: string
  at: string | null
  cause: string
  change: string
}

export type Cluster = {
  cluster: string
  nodeId: string
  replicas: number
  nodes: ClusterNode[]
  shards: Shard[]
  moves: Move[]
}

export type ClusterNode = {
  nodeId: string
  state: string
  isDraining: boolean
  session: string | null
  zone: string
  weight: number
  labels: Record<string, string>
  address: string
  peerAddress: string
  version: string
  load: Load | null
  primaries: number
  backups: number
  troubles: string[] | null
  auth: string
}

export type Duplicate = {
  nodeId: string
  status: string
  startedAt: string | null
  finishedAt: string | null
  tasks: Record<string, Task>
}

export type ErrorDocument = {
  type: string
  message: string
  traceback: string
}

export type Execution = {
  executionId: string
  jobId: string
  job: string
  jobVersion: number
  status: string
  trigger: string
  fireTime: string
  queuedAt: string
  startedAt: string | null
  finishedAt: string | null
  latenessMs: number | null
  progress: number
  reason: string
  tasks: Record<string, Task> | null
  traceparent: string
  standIn: string | null
  possibleDuplicates: Duplicate[] | null
  rerunOf: string | null
  expiresAt: string | null
  triggeredBy: Author | null
  parameters: unknown
  broken: string
  parent: Parent | null
  backfillId: string | null
  intervalStart: string | null
  intervalEnd: string | null
  deferredTo: string | null
}

export type Explanation = {
  job: string
  jobId: string
  at: string
  causes: Cause[]
}

export type FieldProblem = {
  pointer: string
  detail: string
}

export type ForeachBody = {
  items: string | unknown[] | null
  matrix: Record<string, string | unknown[]> | null
  maxParallel: number
  toleratedFailures: number
  onEmpty: "skip" | "success"
}

export type HookRetry = {
  event: string
  receiver: string
  waiting: number
  reason: string
  nextAt: string
}

export type Job = {
  jobId: string
  name: string
  namespace: string
  status: string
  version: number
  description: string
  schedules: Schedule[]
  tasks: TaskSpec[]
  dependencies: string[]
  misfire: string
  grace: string
  overlap: string
  labels: Record<string, string>
  createdAt: string
  updatedAt: string
  nextFireAt: string | null
  executionId: string | null
  type: string | null
  startedAt: string | null
  endedAt: string | null
  result: unknown
  progress: number | null
  lastExecution: LastExecution | null
  recent: Recent | null
  events: string[]
  retryingHooks: HookRetry[]
  pausedAt: string | null
  pausedBy: string
  pauseReason: string
  pausedUntil: string | null
  priority: number
  startDeadline: string
  executionTimeout: string
  consistency: string
  definition: Record<string, unknown> | null
  broken: string
  warnings: string[]
  nextFires: NextFire[] | null
}

export type LastExecution = {
  executionId: string
  status: string
  fireTime: string | null
  startedAt: string | null
  finishedAt: string | null
  reason: string
}

export type LastSuccess = {
  executionId: string
  finishedAt: string
}

export type LedgerEntry = {
  fireTime: string
  until: string
  count: number
  schedule: number
  outcome: string
  executionId: string | null
  reason: string
  recordedAt: string
  broken: string
  jobId: string | null
  job: string | null
}

export type Limits = {
  cpu: number | null
  memory: string | null
  pids: number | null
}

export type LiveEvent = {
  id: string
  type: string
  at: string
  jobId: string | null
  job: string | null
  executionId: string | null
  task: string | null
  attempt: number | null
  status: string | null
  detail: string
  progress: number | null
  fireAt: string | null
  count: number | null
}

export type Load = {
  running: number
  slots: number
  waiting: number
}

export type Move = {
  shard: number
  change: string
  source: string | null
  target: string | null
  isRunning: boolean
  lag: number | null
}

export type NextFire = {
  at: string
  local: string
  schedule: number
  note: string
  excluded: string
  startsAt: string | null
}

export type Parent = {
  job: string
  executionId: string
  task: string
}

export type ProblemDocument = {
  type: string
  title: string
  status: number
  code: string
  detail: string
  requestId: string
  errors: FieldProblem[]
}

export type Recent = {
  counts: Record<string, number>
  lastSuccess: LastSuccess | null
  failureStreak: number
  skipStreak: number
}

export type RepeatBody = {
  until: string
  limit: number
  delay: number | number | string
}

export type Replica = {
  nodeId: string
  role: string
  lag: number | null
}

export type RunJobBody = {
  job: string
  parameters: unknown
}

export type Sandbox = {
  profile: string
  network: boolean
  binds: string[]
}

export type Schedule = {
  schedule: string
  timezone: string
  dayOr: boolean
  nextFireAt: string | null
  spread: boolean
  startAt: string | null
  endAt: string | null
  every: string | null
  gap: string
  fold: string
}

export type Secrets = {
  env: Record<string, string>
  files: Record<string, string>
}

export type Shard = {
  shard: number
  epoch: number
  primary: string | null
  isOpen: boolean | null
  replicas: Replica[]
  target: string[]
}

export type SleepBody = {
  until: string
}

export type StateValue = {
  key: string
  value: unknown
  revision: number
  changedAt: string
  changedBy: Author | null
  executionId: string | null
  task: string | null
}

export type Steps = {
  total: number
  begun: number
  open: number
  failed: number
  skipped: number
}

export type Task = {
  status: string
  attempts: Attempt[]
  reason: string
  retryAt: string | null
  progress: number | null
  keptFrom: string | null
  item: unknown
  steps: Steps | null
  result: unknown
  answeredBy: Author | null
  childExecutionId: string | null
}

export type TaskSpec = {
  name: string
  needs: string[]
  triggerRule: string
  type: string
  command: string | string[] | null
  retries: number
  timeout: string
  python: string | null
  container: string | null
  sandbox: Sandbox | null
  limits: Limits | null
  secrets: Secrets | null
  user: string | null
  identity: boolean
  when: string
  foreach: ForeachBody | null
  repeat: RepeatBody | null
  sleep: string | SleepBody | null
  approval: ApprovalBody | null
  switch: CaseBody[] | null
  runJob: RunJobBody | null
  waitForEvent: WaitForEventBody | null
  handlesFailure: boolean
  allowFailure: boolean
  teardown: boolean
}

export type WaitForEventBody = {
  event: string
  timeout: number | number | string
  onTimeout: "fail" | "skip"
}

export type WindowBody = {
  start: string
  end: string
  weekdays: string[]
}
