/** The time, once a second, for all countdowns and ages of the page. */
class Clock {
  now = $state(Date.now())

  start(): () => void {
    const timer = setInterval(() => {
      if (!document.hidden) this.now = Date.now()
    }, 1_000)
    return () => clearInterval(timer)
  }
}

export const clock = new Clock()
