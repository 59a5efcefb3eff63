/** Whether the node answers: each request has 2 s, after which what is shown counts as stale. */
const ANSWER_MS = 2_000
const BEAT_MS = 2_000

class Connection {
  node = $state('')
  /** The time of the last answer, in milliseconds. */
  answeredAt = $state(Date.now())
  isStale = $state(false)
  private listeners = new Set<() => void>()

  /** Call *listener* when the node answers again; return the function that ends this. */
  onReturn(listener: () => void): () => void {
    this.listeners.add(listener)
    return () => this.listeners.delete(listener)
  }

  expectAnswer(): ReturnType<typeof setTimeout> {
    return setTimeout(() => this.lost(), ANSWER_MS)
  }

  answered(node: string): void {
    if (node) this.node = node
    this.answeredAt = Date.now()
    if (!this.isStale) return
    this.isStale = false
    for (const listener of this.listeners) listener()
  }

  lost(): void {
    this.isStale = true
  }

  /** Ask the node every two seconds whether it lives, while the page is seen. */
  watch(): () => void {
    const timer = setInterval(() => {
      if (!document.hidden && (this.isStale || Date.now() - this.answeredAt >= BEAT_MS)) void this.beat()
    }, BEAT_MS / 2)
    return () => clearInterval(timer)
  }

  async beat(): Promise<void> {
    try {
      const response = await fetch('/livez', { cache: 'no-store', signal: AbortSignal.timeout(ANSWER_MS) })
      this.answered(response.headers.get('Rota-Node') ?? '')
    } catch {
      this.lost()
    }
  }
}

export const connection = new Connection()
