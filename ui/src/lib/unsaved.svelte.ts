/** Whether something is typed and not saved; who would leave it is asked first. */
class Unsaved {
  /** What is done if the answer is to leave; null while nothing is asked. */
  then = $state.raw<(() => void) | null>(null)
  private check: (() => boolean) | null = null

  /** Ask *check* whether there are changes, until the returned function is called. */
  watch(check: () => boolean): () => void {
    this.check = check
    return () => {
      if (this.check === check) this.check = null
    }
  }

  isThere(): boolean {
    return this.check?.() ?? false
  }

  /** Do *then*: at once without changes, else after the answer to leave. */
  ask(then: () => void): void {
    if (this.isThere()) this.then = then
    else then()
  }

  /** Take the changes as saved or given up. */
  forget(): void {
    this.check = null
  }

  leave(): void {
    const then = this.then
    this.forget()
    this.then = null
    then?.()
  }

  stay(): void {
    this.then = null
  }
}

export const unsaved = new Unsaved()
