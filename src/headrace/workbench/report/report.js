"use strict";
{
  // Values on hovering and on focus; everything else on the page works without this.
  const tip = document.getElementById("tip");
  const show = (mark, x, y) => {
    tip.textContent = mark.dataset.tip;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(4, Math.min(x + 12, innerWidth - box.width - 4)) + "px";
    tip.style.top = (y - box.height - 12 < 4 ? y + 16 : y - box.height - 12) + "px";
  };
  const hide = () => { tip.hidden = true; };
  const find = (event) => event.target.closest ? event.target.closest(".mark") : null;
  document.addEventListener("pointermove", (event) => {
    const mark = find(event);
    if (mark) show(mark, event.clientX, event.clientY); else hide();
  });
  document.addEventListener("focusin", (event) => {
    const mark = find(event);
    if (!mark) return hide();
    const box = mark.getBoundingClientRect();
    show(mark, box.left + box.width / 2, box.top);
  });
  document.addEventListener("focusout", hide);
  document.addEventListener("scroll", hide, { passive: true });
  document.documentElement.dataset.ready = "yes";
}
