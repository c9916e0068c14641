// What the site does with the Markdown of the pages, so that the same files work on a code host.
import { existsSync } from 'node:fs'
import { posix as path } from 'node:path'
import { renderMermaidSVG } from 'beautiful-mermaid'

// slug returns the anchor of a heading as code hosts make it. docs_test.go checks the links between pages with the same rule.
export const slug = (text) => text.trim().toLowerCase().replace(/[^\p{L}\p{N}_\- ]/gu, '').replaceAll(' ', '-')

// links rewrites links that leave the pages: those to files of the repository get its address.
export function links(md, { outside }) {
  md.core.ruler.push('confrev_links', (state) => {
    const page = state.env.relativePath
    if (page === undefined) return
    for (const block of state.tokens) {
      for (const token of block.children ?? []) {
        const href = token.type === 'link_open' && token.attrGet('href')
        if (!href || /^([a-z]+:|\/|#)/.test(href)) continue
        const [target, anchor] = href.split('#')
        const file = path.join('docs', path.dirname(page), target)
        const hash = anchor === undefined ? '' : '#' + anchor
        if (!file.startsWith('docs/') || !file.endsWith('.md')) token.attrSet('href', outside(file) + hash)
        else token.attrSet('href', target.replace(/(^|\/)README\.md$/, '$1index.md') + hash)
      }
    }
  })
}

// pictures shows `x-dark.svg` in place of `x.svg` in dark mode, if there is such a file.
export function pictures(md) {
  const image = md.renderer.rules.image
  md.renderer.rules.image = (tokens, index, options, env, self) => {
    const token = tokens[index]
    const source = token.attrGet('src')
    const dark = source.replace(/(\.\w+)$/, '-dark$1')
    if (!env.path || !existsSync(path.join(path.dirname(env.path), dark))) return image(tokens, index, options, env, self)
    const variant = (src, name) => {
      token.attrSet('src', src)
      token.attrSet('class', name)
      return image(tokens, index, options, env, self)
    }
    return variant(source, 'only-light') + variant(dark, 'only-dark')
  }
}

// diagrams draws diagrams in Mermaid while the site is built, in the colors of the theme, so that no script has to do it in the browser.
// What a diagram shows, for those who cannot see it, is its line `accTitle:`.
export function diagrams(md) {
  const fence = md.renderer.rules.fence
  md.renderer.rules.fence = (tokens, index, options, env, self) => {
    if (tokens[index].info.trim() !== 'mermaid') return fence(tokens, index, options, env, self)
    const source = tokens[index].content
    const title = source.match(/^\s*accTitle: *(.+)$/m)?.[1]
    if (!title) throw new Error(`docs/${env.relativePath} has a diagram that does not say what it shows: give it a line "accTitle: …"`)
    const drawn = renderMermaidSVG(source.replace(/^\s*acc(Title|Descr):.*\n/gm, ''), {
      bg: 'var(--vp-c-bg)', fg: 'var(--vp-c-text-1)', muted: 'var(--vp-c-text-2)', transparent: true,
    })
    // Its style asks for a font from elsewhere, and a component may not have one: style.css has the rules.
    const picture = drawn.replace(/<style>[^]*?<\/style>/g, '').replace(/\n\s*\n/g, '\n')
    return `<div class="diagram" role="img" aria-label="${md.utils.escapeHtml(title)}" tabindex="0" v-pre>${picture}</div>\n`
  }
}
