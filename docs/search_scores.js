// SPDX-License-Identifier: Apache-2.0
// Order of search results: names as programs type them come first, modules that programs do not import come last.
var Scorer = {
  score: ([docname, title, , , score]) => {
    const asked = (new URLSearchParams(window.location.search).get("q") || "").trim().toLowerCase().replace(/\(\)$/, "");
    const name = title.toLowerCase();
    const typed = name.startsWith("mx.") || name === "mx";
    let found = score;
    if (name === asked) found += 200;
    else if (typed && name.endsWith(`.${asked}`)) found += 100;
    else if (typed && name.endsWith(`.${asked.replace(/\s+/g, "")}`)) found += 90;
    if (docname.startsWith("reference/generated/modules/")) found -= 60;
    else if (docname.startsWith("reference/generated/operators/")) found += 20;
    else if (docname.startsWith("guides/") || docname.startsWith("reference/generated/interface/")) found += 10;
    return found;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: {0: 15, 1: 5, 2: -5},
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
