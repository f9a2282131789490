// The theme somebody chose, put on before anything is drawn, so that the page never flashes in the other one.
(() => {
  const chosen = localStorage.getItem("bugle.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
