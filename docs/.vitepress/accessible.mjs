// Fixes what VitePress 1.6 gets wrong for users of a keyboard or a screen reader: buttons with other buttons inside, and names that
// differ from the text. It changes the templates while they are compiled. If an update of VitePress changes one of these places, the
// build fails, so that someone looks at it again.
const fixes = {
  // A section that folds: its heading stays a heading, and its arrow is a button that says what it does.
  'VPSidebarItem.vue': [
    [/\n\s*:role="itemRole"/, ''],
    [/\n\s*:tabindex="item\.items && 0"/, ''],
    ['click: onItemInteraction, keydown: onItemInteraction', 'click: onItemInteraction'],
    [/<div(\s+v-if="item\.collapsed != null[^"]*"\s+class="caret")\s+role="button"\s+aria-label="toggle section"\s+@click="onCaretClick"\s+@keydown\.enter="onCaretClick"\s+tabindex="0"\s*>([^]*?)<\/div>/,
      '<button type="button"$1 :aria-label="item.text" :aria-expanded="!collapsed" @click.stop="toggle">$2</button>'],
  ],
  // Its name is its text, which a phone does not show, without the keys.
  'VPNavBarSearchButton.vue': [
    [` :aria-label="translate('button.buttonAriaLabel')"`, ''],
    ['<span class="DocSearch-Button-Container">', `<span class="visually-hidden">{{ translate('button.buttonAriaLabel') }}</span><span class="DocSearch-Button-Container" aria-hidden="true">`],
    ['<span class="DocSearch-Button-Keys">', '<span class="DocSearch-Button-Keys" aria-hidden="true">'],
  ],
  // The search is a dialog with a field that selects from a list.
  'VPLocalSearchBox.vue': [
    [/role="button"\s+:aria-owns="[^"]*"\s+aria-expanded="true"\s+aria-haspopup="listbox"\s+aria-labelledby="localsearch-label"/,
      'role="dialog" aria-modal="true" :aria-label="buttonText"'],
    ['aria-autocomplete="both"', 'role="combobox" aria-haspopup="listbox" :aria-expanded="results?.length ? \'true\' : \'false\'" aria-autocomplete="list"'],
    [/:id="'localsearch-item-' \+ index"\s+:aria-selected="[^"]*"\s+role="option"/, 'role="none"'],
    [/:aria-label="\[\.\.\.p\.titles, p\.title\]\.join\(' > '\)"/,
      `role="option" :id="'localsearch-item-' + index" :aria-selected="selectedIndex === index ? 'true' : 'false'"`],
    [/<kbd :aria-label/g, '<kbd role="img" :aria-label'],
    ['class="back-button"', 'class="back-button" type="button"'],
  ],
}

export function accessible() {
  const done = new Set()
  return {
    name: 'confrev-accessible',
    enforce: 'pre',
    transform(code, id) {
      const name = Object.keys(fixes).find((file) => id.endsWith(`/theme-default/components/${file}`))
      if (!name) return
      for (const [found, better] of fixes[name]) {
        const fixed = code.replace(found, better)
        if (fixed === code) this.error(`${name} of VitePress has changed: look at docs/.vitepress/accessible.mjs, which does not find ${found}`)
        code = fixed
      }
      done.add(name)
      return code
    },
    buildEnd(error) {
      const missing = Object.keys(fixes).filter((name) => !done.has(name))
      if (!error && missing.length > 0) this.error(`VitePress has no ${missing.join(', ')}: look at docs/.vitepress/accessible.mjs`)
    },
  }
}
