// Turns the text areas of editor pages into CodeMirror editors: colours, brackets, completion. Without this script they
// stay text areas. The text area keeps the value, so forms and htmx work as before. The editor is in a shadow root: there
// CodeMirror adds its rules by the CSS object model, which the content security policy allows.
"use strict";
(() => {
  const { Compartment, EditorView, HighlightStyle, PostgreSQL, autocompletion, bracketMatching, closeBrackets,
    closeBracketsKeymap, completionKeymap, defaultKeymap, history, historyKeymap, indentOnInput, json, keymap,
    placeholder, sql, syntaxHighlighting, tags } = codemirror;
  const COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "headers"];

  const colours = HighlightStyle.define([
    { tag: [tags.keyword, tags.typeName, tags.bool, tags.null], color: "var(--accent)" },
    { tag: [tags.string, tags.special(tags.string)], color: "var(--good)" },
    { tag: tags.number, color: "var(--warn)" },
    { tag: tags.comment, color: "var(--muted)", fontStyle: "italic" },
    { tag: tags.propertyName, color: "var(--text)", fontWeight: "600" },
  ]);
  const look = EditorView.theme({
    "&": { background: "var(--surface)", color: "var(--text)", border: "1px solid var(--field)", borderRadius: "6px", fontSize: "13px" },
    "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "1px" },
    ".cm-content": { padding: "9px 4px", caretColor: "var(--text)", fontFamily: "var(--mono)" },
    ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5" },
    ".cm-placeholder": { color: "var(--muted)", whiteSpace: "pre-wrap" },
    ".cm-matchingBracket": { background: "var(--accent-soft)", outline: "1px solid var(--accent)" },
    ".cm-tooltip": { background: "var(--surface)", color: "var(--text)", border: "1px solid var(--line)", borderRadius: "6px" },
    ".cm-tooltip-autocomplete ul li": { padding: "3px 10px" },
    ".cm-tooltip-autocomplete ul li[aria-selected]": { background: "var(--accent)", color: "var(--on-accent)" },
    ".cm-completionMatchedText": { fontWeight: "700", textDecoration: "none" },
  });

  function language(name, area) {
    if (name === "sql") {
      // A topic whose name is no plain word is written in quotes.
      const topics = JSON.parse(area.dataset.topics || "[]").map((topic) => /^[a-z_][a-z0-9_]*$/.test(topic) ? topic : `"${topic.replaceAll('"', '""')}"`);
      const schema = topics.map((label) => ({ self: { label, type: "type" }, children: COLUMNS.map((column) => ({ label: `"${column}"`, type: "property" })) }));
      return sql({ dialect: PostgreSQL, upperCaseKeywords: true, schema: Object.fromEntries(schema.map((one) => [one.self.label.replaceAll(".", "\\."), one])) });
    }
    return name === "json" ? json() : [];
  }

  function edit(area) {
    const chosen = new Compartment();
    const by = area.dataset.languageBy && area.form.elements[area.dataset.languageBy];
    const wanted = () => by ? (["AVRO", "JSON"].includes(by.value) ? "json" : "") : area.dataset.language;
    const host = document.createElement("div");
    host.className = "code-editor";
    const inside = host.attachShadow({ mode: "open" });
    const view = new EditorView({
      doc: area.value, parent: inside, root: inside,
      extensions: [
        history(), indentOnInput(), bracketMatching(), closeBrackets(), autocompletion({ icons: false }),
        syntaxHighlighting(colours), look, chosen.of(language(wanted(), area)), EditorView.lineWrapping,
        EditorView.theme({ ".cm-content, .cm-gutter": { minHeight: `${Number(area.rows) * 1.5}em` } }),
        EditorView.contentAttributes.of({ "aria-label": area.dataset.label, spellcheck: "false" }),
        area.placeholder ? placeholder(area.placeholder) : [],
        keymap.of([{ key: "Mod-Enter", run: () => { area.form.requestSubmit(area.form.querySelector("button")); return true; } }]),
        // Tab stays the key that leaves the field.
        keymap.of([...closeBracketsKeymap, ...completionKeymap, ...historyKeymap, ...defaultKeymap]),
        EditorView.updateListener.of((update) => {
          if (!update.docChanged) return;
          area.value = update.state.doc.toString();
          area.dispatchEvent(new Event("input", { bubbles: true }));
        }),
      ],
    });
    // A hidden field that is required would stop the form without a word.
    area.required = false;
    area.hidden = true;
    area.after(host);
    area.closest("label")?.addEventListener("click", (event) => { if (!host.contains(event.target)) view.focus(); });
    by?.addEventListener("change", () => view.dispatch({ effects: chosen.reconfigure(language(wanted(), area)) }));
  }

  document.addEventListener("DOMContentLoaded", () => { for (const area of document.querySelectorAll("textarea[data-label]")) edit(area); });
})();
