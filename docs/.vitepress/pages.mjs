// Makes the menu and the sidebar from the pages that exist.
import { readFileSync, readdirSync } from 'node:fs'
import { posix as path } from 'node:path'

// listPages returns the paths of all pages below a folder, relative to it.
export function listPages(docs) {
  return readdirSync(docs, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.md'))
    .map((entry) => path.relative(docs, path.join(entry.parentPath ?? entry.path, entry.name)))
    .filter((page) => !/(^|\/)(node_modules|\.[^/]+)\//.test(page))
    .sort()
}

// heading returns the first heading of a page, without marks for code.
export function heading(text) {
  return text.match(/^# (.+)$/m)?.[1].replaceAll('`', '')
}

// address returns where a page is on the site. The README of a folder is its index.
export function address(page) {
  return '/' + page.replace(/(^|\/)(README|index)\.md$/, '$1').replace(/\.md$/, '.html')
}

// navigation returns the menu and the sidebar. A page that is in no section, in two, or without a heading is an error, unless the
// pages are those of an older version, whose pages the sections need not know.
export function navigation(docs, { sections, titles, outside, old = false }) {
  const pages = listPages(docs).filter((page) => page !== 'index.md')
  const read = (page) => readFileSync(path.join(docs, page), 'utf8')
  const named = new Set(sections.flatMap((section) => [section, ...(section.groups ?? [])]).flatMap((group) => group.pages))
  const seen = new Map()
  const problems = []

  const order = (group) => {
    if (!group.orderOf || !pages.includes(group.orderOf)) return (a, b) => a.localeCompare(b)
    const text = read(group.orderOf)
    const at = (page) => {
      const found = text.indexOf(`](${path.relative(path.dirname(group.orderOf), page)}`)
      return found < 0 ? Infinity : found
    }
    return (a, b) => at(a) - at(b) || a.localeCompare(b)
  }
  const item = (page, section) => {
    if (seen.has(page)) problems.push(`docs/${page} is in two sections, ${seen.get(page)} and ${section}`)
    seen.set(page, section)
    const text = titles[page] ?? heading(read(page))
    if (!text) problems.push(`docs/${page} has no heading of the first level`)
    return { text, link: address(page) }
  }
  const items = (group, section) => group.pages.flatMap((entry) => {
    if (!entry.endsWith('/*')) return pages.includes(entry) ? [item(entry, section)] : []
    return pages.filter((page) => path.dirname(page) === entry.slice(0, -2) && !named.has(page))
      .sort(order(group)).map((page) => item(page, section))
  })

  const sidebar = sections.map((section) => ({
    text: section.text,
    collapsed: true,
    items: [
      ...items(section, section.text),
      ...(section.links ?? []).map(({ text, link }) => ({ text, link: outside(link) })),
      ...(section.groups ?? []).map((group) => ({ text: group.text, collapsed: true, items: items(group, section.text) })),
    ],
  })).filter((section) => section.items.length > 0)

  const rest = pages.filter((page) => !seen.has(page))
  if (old && rest.length > 0) {
    sidebar.push({ text: 'More', collapsed: true, items: rest.map((page) => item(page, 'More')) })
  } else {
    problems.push(...rest.map((page) => `docs/${page} is in no section of the site: add it to docs/.vitepress/sections.mjs`))
  }
  if (problems.length > 0) throw new Error(problems.join('\n'))

  // An entry of the menu is marked on all pages of its section.
  const nav = sidebar.map((section) => {
    const links = section.items.flatMap((entry) => entry.items ?? [entry]).map((entry) => entry.link).filter((link) => link.startsWith('/'))
    const pattern = links.map((link) => link.slice(1).replace(/[.]/g, '\\.')).join('|')
    return { text: section.text, link: links[0], activeMatch: `^/(?:${pattern})$` }
  })
  return { nav, sidebar, count: pages.length }
}
