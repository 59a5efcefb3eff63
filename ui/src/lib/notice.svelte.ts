/** What the last action did, in one sentence at the foot of the page. */
class Notice {
  text = $state('')
  href = $state('')
  private timer: ReturnType<typeof setTimeout> | undefined

  show(text: string, href = ''): void {
    this.text = text
    this.href = href
    clearTimeout(this.timer)
    this.timer = setTimeout(() => (this.text = ''), 8_000)
  }
}

export const notice = new Notice()
