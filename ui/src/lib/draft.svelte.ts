import { pretty } from './json'
import type { Job } from './types'

/** What a draft began from: a text, and the version of the job that has it; null for a new job. */
export type Base = { text: string; version: number | null }

/** A definition that is being typed. */
export class Draft {
  text = $state('')
  base = $state.raw<Base>({ text: '', version: null })
  /** What another version of the job took the place of. */
  aside = $state('')

  /** The text before anything was typed: a version that is restored differs from the base at once. */
  private begin = ''

  constructor(base: Base, text = base.text) {
    this.base = base
    this.text = this.begin = text
  }

  get isChanged(): boolean {
    return this.text !== this.base.text
  }

  /** Whether something would be lost with the draft. */
  get isTyped(): boolean {
    return this.text !== this.begin || this.aside !== ''
  }

  /** Show another version; what was typed is put aside. */
  load(theirs: Base): void {
    this.aside = this.text
    this.base = theirs
    this.text = this.begin = theirs.text
  }

  /** Change places with what was put aside. */
  swap(): void {
    ;[this.text, this.aside] = [this.aside, this.text]
  }
}

export function baseOf(job: Job): Base {
  return { text: pretty(job.definition), version: job.version }
}

/** The draft of a view that had to make way for the question for a key, in memory alone. */
let kept: { address: string; draft: Draft } | null = null

export function keep(address: string, draft: Draft): void {
  kept = { address, draft }
}

/** Return the draft that was kept for an address, once. */
export function takeKept(address: string): Draft | null {
  const found = kept?.address === address ? kept.draft : null
  kept = null
  return found
}
