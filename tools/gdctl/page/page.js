"use strict";
fetch("/api/overview").then((answer) => answer.text()).then((text) => {
  document.getElementById("main").textContent = text;
});
