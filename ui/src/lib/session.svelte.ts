/** The key of the user, in memory alone: it is gone when the page is closed or loaded again. */
class Session {
  key = $state('')
  /** True after a node refused a request for want of a valid key. */
  isRefused = $state(false)
  principal = $state('')

  headers(): Record<string, string> {
    return this.key ? { Authorization: `Bearer ${this.key}` } : {}
  }

  signOut(): void {
    this.key = ''
    this.principal = ''
    this.isRefused = true
  }
}

export const session = new Session()
