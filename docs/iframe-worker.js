// What the search needs beside the theme.

// Search on pages opened from the disk, where browsers start no worker: its script runs in a hidden
// frame and is spoken to in the same way.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      document.body.append(frame);
      this.inside = frame.contentWindow;
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = frame.contentDocument.createElement("script");
      this.ready = new Promise((resolve) => { script.onload = resolve; });
      script.src = url;
      frame.contentDocument.head.append(script);
    }

    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}

// An option is searched for as it is written: to the search a word after "-" is one to leave out.
const post = window.Worker.prototype.postMessage;
window.Worker.prototype.postMessage = function (message) {
  const said = typeof message.data === "string" ? message.data.replace(/(^|\s)--?(?=\w)/g, "$1") : message.data;
  post.call(this, { ...message, data: said });
};
