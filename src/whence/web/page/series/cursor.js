/** The plot's mouse, finger and keys: a cursor that reads values; a drag blanks a stretch, Shift with the arrows selects one. */

const PAGE = 0.1; // of the steps shown: how far Page Up and Page Down go

/**
 * @param {Object} plot
 * @param {{moveTo: (step: number|null) => void, select: (stretch: [number, number]|null) => void, blank: () => void,
 *   click: (step: number) => boolean}} actions
 */
export function listen(plot, { moveTo, select, blank, click }) {
  const { element } = plot;
  let anchor = null; // where a drag or a selection by keys began
  let isDragging = false;
  const stepUnder = (event) => plot.frame.stepAt(event.clientX - element.getBoundingClientRect().left);

  element.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !plot.frame) return;
    anchor = stepUnder(event);
    isDragging = true;
    element.setPointerCapture(event.pointerId);
  });
  element.addEventListener("pointermove", (event) => {
    if (!plot.frame) return;
    const step = stepUnder(event);
    if (step === plot.cursor) return;
    if (isDragging) select(stretch(anchor, step));
    moveTo(step);
  });
  element.addEventListener("pointerup", (event) => {
    if (!isDragging) return;
    isDragging = false;
    const step = stepUnder(event);
    moveTo(step);
    if (step !== anchor || plot.selected) finish(step);
    else if (!click(step)) select(stretch(step, step));
  });
  element.addEventListener("pointercancel", () => {
    isDragging = false; // the finger scrolls the page instead
    select(null);
  });
  element.addEventListener("pointerleave", () => {
    if (!isDragging && !element.matches(":focus-visible")) moveTo(null);
  });
  element.addEventListener("focus", () => {
    if (element.matches(":focus-visible") && plot.cursor === null && plot.frame) moveTo(plot.frame.to - 1);
  });
  element.addEventListener("blur", () => moveTo(null));
  element.addEventListener("keydown", (event) => {
    if (!plot.frame || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && plot.selected) return void ((anchor = null), select(null));
    if (event.key === "Enter") return void (event.preventDefault(), selected(), blank());
    if (event.key === " ") {
      event.preventDefault();
      anchor = plot.cursor ?? plot.frame.to - 1;
      return select([anchor, anchor + 1]);
    }
    const step = target(event.key);
    if (step === null) return;
    event.preventDefault();
    const from = plot.cursor ?? plot.frame.to - 1;
    if (event.shiftKey) {
      if (!plot.selected || anchor === null) anchor = from;
      select(stretch(anchor, step));
    }
    moveTo(step);
  });

  /** A drag blanks what it went over. */
  function finish(step) {
    const isDrag = step !== anchor;
    select(isDrag ? stretch(anchor, step) : null);
    if (isDrag) blank();
  }

  /** Without a selection, Enter takes the step under the cursor. */
  function selected() {
    if (!plot.selected && plot.cursor !== null) select([plot.cursor, plot.cursor + 1]);
  }

  /** The step that a key leads to, inside what is shown. */
  function target(key) {
    const { from, to } = plot.frame;
    const at = plot.cursor ?? to - 1;
    const page = Math.max(1, Math.round((to - from) * PAGE));
    const steps = {
      ArrowRight: at + 1,
      ArrowUp: at + 1,
      ArrowLeft: at - 1,
      ArrowDown: at - 1,
      PageUp: at + page,
      PageDown: at - page,
      Home: from,
      End: to - 1,
    };
    return key in steps ? Math.min(Math.max(steps[key], from), to - 1) : null;
  }
}

/** The stretch between two steps, its end exclusive. */
function stretch(one, other) {
  return [Math.min(one, other), Math.max(one, other) + 1];
}
