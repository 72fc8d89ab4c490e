// Search runs in a web worker, and browsers start no worker for a page that was opened as a file. There, this class takes
// the worker's place: it runs the worker's script in a hidden frame and passes messages in both directions.
if (location.protocol === "file:") {
  window.Worker = class IframeWorker extends EventTarget {
    constructor(url) {
      super()
      this.onmessage = null
      this.onerror = null
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.append(this.frame)
      this.inside = this.frame.contentWindow
      this.inside.postMessage = data => this.deliver(this, data)
      this.loaded = new Promise((resolve, reject) => {
        const script = this.inside.document.createElement("script")
        script.src = new URL(url, location.href)
        script.onload = resolve
        script.onerror = reject
        this.inside.document.body.append(script)
      })
      this.loaded.catch(() => this.onerror?.(new ErrorEvent("error", { message: `cannot load ${url}` })))
    }

    postMessage(data) {
      this.loaded.then(() => this.deliver(this.inside, data))
    }

    // As between real workers: the receiver gets a copy, later. A window calls its `onmessage` itself, this class does not.
    deliver(target, data) {
      const copy = structuredClone(data)
      setTimeout(() => {
        const event = new MessageEvent("message", { data: copy })
        target.dispatchEvent(event)
        if (target === this) this.onmessage?.(event)
      })
    }

    terminate() {
      this.frame.remove()
    }
  }
}
