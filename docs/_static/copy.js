// A button on every block of code that copies it without the prompts of a shell or of Python.
document.addEventListener("DOMContentLoaded", () => {
  for (const block of document.querySelectorAll("div[class*='highlight-'] pre")) {
    if (block.closest(".highlight-text, .highlight-none")) continue;
    const button = document.createElement("button");
    button.className = "copy";
    button.textContent = "copy";
    button.type = "button";
    button.addEventListener("click", async () => {
      const text = block.cloneNode(true);
      text.querySelectorAll("button, .gp, .go").forEach((part) => part.remove());
      await navigator.clipboard.writeText(text.textContent.replace(/^\$ /gm, "").trimEnd());
      button.textContent = "copied";
      setTimeout(() => (button.textContent = "copy"), 1500);
    });
    block.append(button);
  }
});
