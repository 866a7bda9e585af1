// Before the first paint: the reader's own choice of light or dark. Not a module, so that nothing flickers.
(() => {
  try {
    const chosen = localStorage.getItem("whence-theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch {
    // storage may be forbidden; the system's preference holds then
  }
})();
