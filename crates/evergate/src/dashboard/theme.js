// Before anything is painted, so that the page does not flash in the wrong colours: light or dark as chosen here, else as
// the system says.
"use strict";
try {
  const chosen = localStorage.getItem("evergate-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch { /* storage is forbidden: as the system says */ }
